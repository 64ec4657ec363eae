-- Gives a lock back, if it is this owner's. Nobody is told: who waits looks.
-- KEYS: the lock, its token. ARGV: the owner's text. Answers 1, or 0: it was not this owner's.
if redis.pcall('get', KEYS[1]) ~= ARGV[1] then
    return 0
end
return redis.call('del', KEYS[1])
