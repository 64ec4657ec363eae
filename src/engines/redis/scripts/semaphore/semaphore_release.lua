-- SPDX-License-Identifier: Apache-2.0
-- include names.lua
-- include queue.lua
-- include permits.lua
-- Gives permits back, and a place in line.
-- ARGV: the ids' prefix, the owner's key, how many. Answers 1, or 0: not all were this owner's; or -1,
-- if the name has been overwritten with something that is no number.
local wanted = tonumber(ARGV[3])
local waited = leave_line('permit ' .. wanted .. ' ' .. ARGV[2])
local is = redis.call('type', lock).ok
local overwritten = is ~= 'none' and (is ~= 'string' or not tonumber(redis.call('get', lock)))
if redis.call('type', permits).ok == 'zset' then
    reap()
end
local released = give_back(ARGV[1], wanted)
if overwritten then
    return -1
end
if waited and redis.call('exists', queue) == 1 then
    tell_free(tonumber(redis.call('get', lock) or '0'))
end
return released == wanted and 1 or 0
