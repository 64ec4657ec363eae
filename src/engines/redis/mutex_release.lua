-- Gives a mutex back, if it is this owner's, and passes it on; or gives up its place in the queue.
-- KEYS: the lock, its channel, its token, the queue of our clients that wait. ARGV: the owner's
-- field, the token's time to live, the lease in ms of who is given it.
-- Answers 1, or 0: it was not this owner's; or an error, if the lock is something else by now.
-- include mutex_pass_on.lua
local held = redis.pcall('hdel', KEYS[1], ARGV[1])
if held ~= 1 then
    redis.call('zrem', KEYS[4], ARGV[1])
    return held
end
if redis.call('exists', KEYS[1]) == 0 then
    pass_on(KEYS[1], KEYS[2], KEYS[4], KEYS[3], ARGV[2], ARGV[3])
end
return 1
