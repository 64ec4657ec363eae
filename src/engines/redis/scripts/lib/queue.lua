-- SPDX-License-Identifier: Apache-2.0
-- The waiters, in order: `queue` has them by when they came, `alive` by when they will be taken for
-- dead, unless they ask again before. A place is "mode permits owner".
local time = redis.call('time')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local PLACE_MS = 6000

local function drop_the_dead()
    local dead = redis.call('zrangebyscore', alive, '-inf', now_ms, 'limit', 0, 1000)
    for _, place in ipairs(dead) do
        -- mutant: dead-keep-their-places
        redis.call('zrem', queue, place)
        redis.call('zrem', alive, place)
    end
end

-- What came to the front is before all that came by themselves.
local FRONT = 4000000000000000

local function line_up(place, ahead)
    redis.call('zadd', queue, 'nx', time[1] * 1000000 + time[2] - (ahead or 0), place)
    redis.call('zadd', alive, now_ms + PLACE_MS, place)
    redis.call('pexpire', queue, PLACE_MS)
    redis.call('pexpire', alive, PLACE_MS)
end

-- Did it have one of these places?
local function leave_line(...)
    redis.call('zrem', alive, ...)
    return redis.call('zrem', queue, ...) > 0
end

-- Is another claim before it in line?
local function is_behind(place)
    local first = redis.call('zrange', queue, 0, 0)[1]
    return first ~= nil and first ~= place
end

-- Of those whose place begins with `what`? Mostly it is one of the first, or none. All that wait
-- ask one after the other, so none looks further than it must.
local function is_behind_some(place, what)
    local PAGE, from = 64, 0
    repeat
        local page = redis.call('zrange', queue, from, from + PAGE - 1)
        for _, other in ipairs(page) do
            if other == place then
                return false
            end
            if string.sub(other, 1, #what) == what then
                return true
            end
        end
        from = from + PAGE
    until #page < PAGE
    return false
end
