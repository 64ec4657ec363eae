-- SPDX-License-Identifier: Apache-2.0
-- Part of other scripts. Giving a free lock to a waiter.
-- include token.lua
-- include tell.lua

-- Makes one of our claims the holder, if its client hears it. The lease is a short one: a client
-- that hears of it makes it longer, and one that has just died does not keep the lock.
local function grant(lock, last, field, token_ms, grant_ms)
    local token = next_token(last, token_ms, field)
    local digits = type(token) == 'string' and token or string.format('%.0f', token)
    if not tell(field, digits .. ' ' .. grant_ms) then
        return false
    end
    redis.call('hset', lock, field, '1')
    -- mutant: what-was-granted-begins
    redis.call('pexpire', lock, grant_ms)
    return true
end
