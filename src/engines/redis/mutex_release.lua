-- Gives a mutex back, if it is this owner's, and tells those who wait.
-- KEYS: the lock, its channel. ARGV: the owner's field. Answers 1, or 0: it was not this owner's.
if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then
    return 0
end
if redis.call('exists', KEYS[1]) == 0 then
    redis.call('publish', KEYS[2], '0')
end
return 1
