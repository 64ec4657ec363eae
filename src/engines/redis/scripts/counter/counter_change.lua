-- SPDX-License-Identifier: Apache-2.0
-- include names.lua
-- Looks at a counter or changes it. ARGV: "get", "set", "add" or "remove", the number.
-- Answers {1, its value}, {-1, why it cannot be}, or {-2, its value}: it would become too large.
local verb, number = ARGV[1], tonumber(ARGV[2])
local another = in_use_as_another('a counter')
if another then
    return {-1, another}
end
local value = tonumber(redis.call('get', lock) or '0')
if verb == 'get' then
    return {1, value}
end
if verb == 'remove' then
    redis.call('del', lock, mark)
    return {1, 0}
end
if verb == 'add' then
    number = value + number
end
if number > 4294967295 then
    return {-2, value}
end
redis.call('set', lock, string.format('%.0f', number))
redis.call('set', mark, 'a counter')
if number > 0 then
    redis.pcall('spublish', channel, string.format('%.0f', number))
end
return {1, number}
