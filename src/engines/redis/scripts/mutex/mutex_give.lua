-- SPDX-License-Identifier: Apache-2.0
-- Part of other scripts. Gives a mutex back as mutex_release.lua does, and answers as that does.
-- include mutex_pass_on.lua
-- include overwritten.lua
local function give(lock, channel, last, queue, token_ms, grant_ms, field)
    local held = redis.pcall('hdel', lock, field)
    if held ~= 1 then
        redis.call('zrem', queue, field)
        -- Where many were given back at once, the look at the waiters may never have come.
        -- mutant: release-that-is-said-again
        if held ~= 0 or redis.pcall('exists', lock) ~= 0 or redis.pcall('exists', queue) ~= 1 then
            return lost_or(held)
        end
    end
    return held * pass_on(lock, channel, queue, last, token_ms, grant_ms)
end
