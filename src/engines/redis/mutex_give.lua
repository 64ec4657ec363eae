-- Part of other scripts. Gives a mutex back, if it is this owner's, and passes it on; or gives up its
-- place in the queue. It has one field, so that it is free without this one.
-- Answers 1, or 2: and gave it to who waited, or 0: it was not this owner's; or an error, if the lock is something else by now.
-- include mutex_pass_on.lua
local function give(lock, channel, last, queue, token_ms, grant_ms, field)
    local held = redis.pcall('hdel', lock, field)
    if held ~= 1 then
        redis.call('zrem', queue, field)
        -- Where many were given back at once, the look at who waits may never have come.
        if held ~= 0 or redis.call('exists', lock) == 1 or redis.call('exists', queue) == 0 then
            return held
        end
    end
    return held * pass_on(lock, channel, queue, last, token_ms, grant_ms)
end
