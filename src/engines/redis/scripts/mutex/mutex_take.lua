-- SPDX-License-Identifier: Apache-2.0
-- Part of other scripts.
-- include token.lua
-- include holder.lua
-- include ours.lua
-- include no_hash.lua

local function has(fields, wanted)
    for _, field in ipairs(fields) do
        if field == wanted then
            return true
        end
    end
    return false
end

-- Takes a mutex for one owner. Attempting twice has the effect of attempting once: what is ours already
-- is granted again, with the same token. Its lease is not made shorter, since a repeated attempt may
-- arrive after hf_renew has made it longer. There is one exception: a waiter may have been given the lock
-- with a lease of REDIS_GRANT_MS, and sets its own, which may be shorter.
-- `waits` is 0: it does not wait, 1: it is going to, 2: it may wait already.
-- Answers {1, token}, {0, milliseconds until it may be free, 1 if another library's client has it
-- or 0}, or {-1, why it cannot be}.
local function take(lock, last, queue, token_ms, queue_ms, field, lease_ms, waits)
    local fields = redis.pcall('hkeys', lock)
    if fields.err then
        local why = why_no_hash(lock)
        return why and {-1, why} or fields
    end
    local ours = has(fields, field)
    if fields[1] and not ours then
        if has(fields, 'mode') then
            return {-1, 'is in use as a read-write lock, not as a mutex'}
        end
        -- mutant: hash-of-application-is-waited
        if not is_ours(fields[1]) and not string.find(fields[1], HOLDER) then
            return {-1, 'is in use as something that is no lock, not as a mutex'}
        end
        if waits ~= '0' then
            clock = clock or redis.call('time')
            redis.call('zadd', queue, 'nx', string.format('%.0f', microseconds(clock)), field)
            redis.call('pexpire', queue, queue_ms)
        end
        local others = is_ours(fields[1]) and 0 or 1
        return {0, redis.call('pttl', lock), others}
    end
    local token = ours and last_token(last) or next_token(last, token_ms, field)
    redis.call('hset', lock, field, '1')
    local left = ours and redis.call('pttl', lock) or -1
    local shorter = waits == '2' and left <= REDIS_GRANT_MS and left > tonumber(lease_ms)
    if left < tonumber(lease_ms) or shorter then
        redis.call('pexpire', lock, lease_ms)
    end
    if waits == '2' then
        redis.call('zrem', queue, field)
    end
    -- Those that wait may have seen the longer one, and would sleep until it is over.
    -- mutant: shorter-lease-is-not-told
    if shorter then
-- include mutex_call_first.lua
        redis.pcall('spublish', 'redisson_lock__channel' .. string.sub(last, 1 + #'redisson_lock_token'), '0')
        call_first(queue)
    end
    return {1, token}
end
