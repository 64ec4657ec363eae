-- SPDX-License-Identifier: Apache-2.0
-- include simple_kind.lua
-- Takes a lock away from one holder, or from any holder.
-- KEYS: the lock. ARGV: the holder's text, or nothing.
-- Answers how many held it, and how many of them lost it; or {-1, why it cannot be}.
local is = redis.call('type', KEYS[1]).ok
if is == 'none' then
    return {0, 0}
end
if is ~= 'string' then
    return {-1, 'is there, but is no plain lock, which format=simple is for'}
end
local holder = redis.call('get', KEYS[1])
local kind = kind_of_number(holder, KEYS[1])
if kind then
    return {-1, 'is in use as ' .. kind .. ', not as a mutex'}
end
-- mutant: breaking-plain-lock-asks
if ARGV[1] and holder ~= ARGV[1] then
    return {1, 0}
end
return {1, redis.call('del', KEYS[1])}
