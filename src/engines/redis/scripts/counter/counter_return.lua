-- SPDX-License-Identifier: Apache-2.0
-- include names.lua
-- include queue.lua
-- Gives a place in line back, and units that were taken for a claim that does not want them any
-- more. Attempting twice has the effect of attempting once.
-- ARGV: the owner's field, the record, its time to live in ms, 1 if they are known to be taken, how
-- many, 1 if an attempt may come later. Answers 1.
local record, wanted = ARGV[2], tonumber(ARGV[5])
local waited = leave_line('counter ' .. wanted .. ' ' .. ARGV[1])
local was = redis.call('get', record)
if was == 'taken' or (ARGV[4] == '1' and not was) then
    -- mutant: units-that-none-wants-any-more
    redis.call('incrby', lock, wanted)
    waited = true
end
if was or ARGV[4] == '1' or ARGV[6] == '1' then
    redis.call('set', record, 'returned', 'px', ARGV[3])
end
local value = tonumber(redis.call('get', lock) or '0')
if waited and value > 0 then
    redis.pcall('spublish', channel, value)
end
return 1
