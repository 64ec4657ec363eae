-- Takes a mutex away from one holder, or from whoever holds it.
-- KEYS: the lock, its channel, its token, the queue of our clients that wait. ARGV: the token's time
-- to live, the lease in ms of who is given it, the holder's field, or nothing.
-- Answers how many held it, and how many of them lost it; or {-1, what the name is in use as}.
-- include mutex_pass_on.lua
local held = redis.call('hlen', KEYS[1])
local broken = held
if held == 0 then
    return {0, 0}
end
if redis.call('hexists', KEYS[1], 'mode') == 1 then
    return {-1, 'a read-write lock'}
end
if ARGV[3] then
    broken = redis.call('hdel', KEYS[1], ARGV[3])
else
    redis.call('del', KEYS[1])
end
if broken > 0 and redis.call('exists', KEYS[1]) == 0 then
    pass_on(KEYS[1], KEYS[2], KEYS[4], KEYS[3], ARGV[1], ARGV[2])
end
return {held, broken}
