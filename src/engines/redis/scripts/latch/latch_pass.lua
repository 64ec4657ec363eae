-- SPDX-License-Identifier: Apache-2.0
-- include names.lua
-- include queue.lua
-- Passes a latch that is at zero; else lines up, for others to see. ARGV: the waiter's field, 1 if
-- it is going to wait. Answers {1, 0}, {0, -1}, or {-1, why it cannot be}.
local place = 'latch 0 ' .. ARGV[1]
drop_the_dead()
local another = in_use_as_another('a latch')
if not another and tonumber(redis.call('get', lock) or '0') > 0 then
    if ARGV[2] == '1' then
        line_up(place)
    end
    redis.pcall('set', mark, 'a latch ' .. redis.call('get', lock), 'xx', 'px', 'REDIS_LATCH_MARK_MS')
    return {0, -1}
end
leave_line(place)
return another and {-1, another} or {1, 0}
