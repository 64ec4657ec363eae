-- Takes a mutex for one owner. Asking twice is asking once: what is ours already is granted again,
-- with the same token and a lease that begins anew.
-- KEYS: the lock, its token. ARGV: the owner's field, the lease in ms, the token's time to live.
-- Answers {1, token}, {0, milliseconds until it may be free}, or {-1, what it is in use as}.
local lock, last = KEYS[1], KEYS[2]
local ours = redis.call('hexists', lock, ARGV[1]) == 1
if not ours and redis.call('exists', lock) == 1 then
    if redis.call('hexists', lock, 'mode') == 1 then
        return {-1, 'a read-write lock'}
    end
    return {0, redis.call('pttl', lock)}
end
local token = redis.call('get', last)
if not (ours and token) then
    local now = redis.call('time')
    local number = now[1] * 1000000 + now[2]
    if token and tonumber(token) >= number then
        number = token + 1
    end
    -- A counter without an end is a Java client's, and must not begin again at 1 one day.
    local endless = token and redis.call('pttl', last) == -1
    token = string.format('%.0f', number)
    if endless then
        redis.call('set', last, token)
    else
        redis.call('set', last, token, 'px', ARGV[3])
    end
    redis.call('hset', lock, ARGV[1], 1)
end
redis.call('pexpire', lock, ARGV[2])
return {1, token}
