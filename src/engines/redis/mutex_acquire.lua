-- Takes a mutex for one owner. Asking twice is asking once: what is ours already is granted again,
-- with the same token and a lease that begins anew.
-- KEYS: the lock, its token, the queue of our clients that wait. ARGV: the owner's field, the lease
-- in ms, the token's time to live, 0: it does not wait, 1: it is going to, 2: it may wait already;
-- how long the queue lives.
-- Answers {1, token}, {0, milliseconds until it may be free, 1 if somebody else's client has it or
-- 0}, or {-1, why it cannot be}.
-- include grant.lua
local lock, last, queue = KEYS[1], KEYS[2], KEYS[3]
local ours = redis.call('hexists', lock, ARGV[1]) == 1
if not ours and redis.call('exists', lock) == 1 then
    if redis.call('hexists', lock, 'mode') == 1 then
        return {-1, 'is in use as a read-write lock, not as a mutex'}
    end
    if ARGV[4] ~= '0' then
        local now = redis.call('time')
        local arrival = string.format('%.0f', now[1] * 1000000 + now[2])
        redis.call('zadd', queue, 'nx', arrival, ARGV[1])
        redis.call('pexpire', queue, ARGV[5])
    end
    local others = is_ours(redis.call('hkeys', lock)[1]) and 0 or 1
    return {0, redis.call('pttl', lock), others}
end
local token = ours and redis.call('get', last) or next_token(last, ARGV[3])
redis.call('hset', lock, ARGV[1], 1)
redis.call('pexpire', lock, ARGV[2])
if ARGV[4] == '2' then
    redis.call('zrem', queue, ARGV[1])
end
return {1, token}
