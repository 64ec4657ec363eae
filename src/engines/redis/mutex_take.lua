-- Part of other scripts. Taking a mutex for one owner. Asking twice is asking once: what is ours
-- already is granted again, with the same token and a lease that begins anew. `waits` is 0: it does
-- not wait, 1: it is going to, 2: it may wait already.
-- Answers {1, token}, {0, milliseconds until it may be free, 1 if somebody else's client has it or
-- 0}, or {-1, why it cannot be}.
-- include grant.lua
local function take(lock, last, queue, token_ms, queue_ms, field, lease_ms, waits)
    local held = redis.call('exists', lock) == 1
    local ours = held and redis.call('hexists', lock, field) == 1
    if held and not ours then
        if redis.call('hexists', lock, 'mode') == 1 then
            return {-1, 'is in use as a read-write lock, not as a mutex'}
        end
        if waits ~= '0' then
            local now = redis.call('time')
            local arrival = string.format('%.0f', now[1] * 1000000 + now[2])
            redis.call('zadd', queue, 'nx', arrival, field)
            redis.call('pexpire', queue, queue_ms)
        end
        local others = is_ours(redis.call('hkeys', lock)[1]) and 0 or 1
        return {0, redis.call('pttl', lock), others}
    end
    local token = ours and redis.call('get', last) or next_token(last, token_ms)
    redis.call('hset', lock, field, 1)
    redis.call('pexpire', lock, lease_ms)
    if waits == '2' then
        redis.call('zrem', queue, field)
    end
    return {1, token}
end
