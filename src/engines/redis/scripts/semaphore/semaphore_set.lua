-- SPDX-License-Identifier: Apache-2.0
-- include names.lua
-- include queue.lua
-- include permits.lua
-- Sets how many permits a semaphore has in all; 0 removes it, unless one is taken.
-- ARGV: how many. Answers {1}, {0}: permits are out, or {-1, why it cannot be}.
local wanted = tonumber(ARGV[1])
local another = in_use_as_another('a semaphore')
if another then
    return {-1, another}
end
reap()
local free, taken = redis.call('get', lock), redis.call('zcard', permits)
if wanted == 0 then
    if taken > 0 then
        return {0}
    end
    redis.call('del', lock, mark, permits)
    return {1}
end
if free then
    free = redis.call('incrby', lock, wanted - taken - free)
else
    free = wanted - taken
    redis.call('set', lock, free)
end
redis.call('set', mark, 'a semaphore')
-- All waiters look again, also if none is free: a waiter for more than there are by now is told.
redis.pcall('spublish', channel, math.max(0, free))
return {1}
