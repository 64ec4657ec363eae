-- SPDX-License-Identifier: Apache-2.0
-- include names.lua
-- include queue.lua
-- Takes units from a counter, in the order of arrival. Attempting twice has the effect of attempting once: what was taken
-- is on record until the client has heard of it.
-- ARGV: the owner's field, the record, its time to live in ms, 1 if it is going to wait, how many.
-- Answers {1, 0}, {0, -1}, or {-1, why it cannot be}. An attempt that arrives behind its own release
-- takes nothing.
local field, record, waits, wanted = ARGV[1], ARGV[2], ARGV[4] == '1', tonumber(ARGV[5])
local place = 'counter ' .. wanted .. ' ' .. field
drop_the_dead()
local was = redis.call('get', record)
if was == 'taken' then
    return {1, 0}
-- mutant: attempt-that-arrives
elseif was == 'returned' then
    return {0, -1}
end
local another = in_use_as_another('a counter')
if another then
    leave_line(place)
    return {-1, another}
end
local value = tonumber(redis.call('get', lock) or '0')
if value < wanted or is_behind(place) then
    if waits then
        line_up(place)
    end
    return {0, -1}
end
-- The server does not undo what a script has done that it stops: so what it may stop comes before
-- what counts, and units that are not taken are not on record as taken.
leave_line(place)
local others_wait = redis.call('exists', queue) == 1
-- mutant: what-was-taken-from-counter
redis.call('set', record, 'taken', 'px', ARGV[3])
local left = redis.pcall('decrby', lock, wanted)
if type(left) ~= 'number' then
    -- mutant: units-that-may-not-be-taken-go
    redis.call('set', record, 'refused', 'px', ARGV[3])
    return left
end
-- The next in line may have been refused before this one came.
if left > 0 and others_wait then
    redis.pcall('spublish', channel, left)
end
return {1, 0}
