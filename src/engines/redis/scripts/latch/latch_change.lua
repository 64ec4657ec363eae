-- SPDX-License-Identifier: Apache-2.0
-- include names.lua
-- Looks at a latch or changes it. ARGV: "get", "set" or "down", the number.
-- Answers {1, its count}, {0, its count}: it is above zero already, or {-1, why it cannot be}.
local verb, number = ARGV[1], tonumber(ARGV[2])
local another = in_use_as_another('a latch')
if another then
    return {-1, another}
end
local count = math.max(0, tonumber(redis.call('get', lock) or '0'))
if verb == 'get' or (verb == 'down' and count == 0) then
    redis.pcall('set', mark, 'a latch ' .. count, 'xx', 'px', 'REDIS_LATCH_MARK_MS')
    return {1, count}
end
if verb == 'set' and count > 0 then
    return {0, count}
end
local left = verb == 'set' and number or math.max(0, count - number)
if left > 0 then
    redis.call('set', lock, string.format('%.0f', left))
    -- mutant: mark-of-latch-that-java
    redis.call('set', mark, string.format('a latch %.0f', left), 'px', 'REDIS_LATCH_MARK_MS')
else
    redis.call('del', lock, mark)
end
if verb == 'set' and left > 0 then
    redis.pcall('spublish', channel, '1')
elseif verb == 'down' and left == 0 then
    redis.pcall('spublish', channel, '0')
end
return {1, left}
