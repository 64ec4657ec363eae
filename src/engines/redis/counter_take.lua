-- include names.lua
-- include queue.lua
-- Takes units from a counter, in the order of arrival. Asking twice is asking once: what was taken
-- is on record until the client has heard of it.
-- ARGV: the owner's field, the record, its time to live in ms, 1 if it is going to wait, how many.
-- Answers {1, 0}, {0, -1}, or {-1, why it cannot be}.
local field, record, waits, wanted = ARGV[1], ARGV[2], ARGV[4] == '1', tonumber(ARGV[5])
local place = 'counter ' .. wanted .. ' ' .. field
drop_the_dead()
if redis.call('get', record) == 'taken' then
    return {1, 0}
end
local another = in_use_as_another('a counter')
if another then
    leave_line(place)
    return {-1, another}
end
local value = tonumber(redis.call('get', lock) or '0')
if value < wanted or is_behind(place, '') then
    if waits then
        line_up(place)
    end
    return {0, -1}
end
value = redis.call('decrby', lock, wanted)
redis.call('set', record, 'taken', 'px', ARGV[3])
leave_line(place)
-- The next in line may have been refused before this one came.
if value > 0 and redis.call('exists', queue) == 1 then
    redis.pcall('spublish', channel, value)
end
return {1, 0}
