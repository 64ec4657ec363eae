-- Takes over a mutex that was left under a field, with the lease as it is: the field changes its
-- name, so that it can be taken over once. Asking twice is asking once.
-- KEYS: the lock, its token. ARGV: the field it was left under, the owner's field.
-- Answers {1, token, milliseconds left}, or {0}: nobody holds it under that field.
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
    if redis.call('hexists', KEYS[1], ARGV[1]) == 0 or ARGV[1] == 'mode' then
        return {0}
    end
    redis.call('hset', KEYS[1], ARGV[2], 1)
    redis.call('hdel', KEYS[1], ARGV[1])
end
return {1, redis.call('get', KEYS[2]) or '0', redis.call('pttl', KEYS[1])}
