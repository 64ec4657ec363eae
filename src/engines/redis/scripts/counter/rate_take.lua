-- SPDX-License-Identifier: Apache-2.0
-- include names.lua
-- Takes from a rate limiter. The lock is the time at which its whole burst is there again, in
-- microseconds of the server's clock, and ends a second after it. ARGV: the microseconds that it costs,
-- those of the burst, and how many the caller waits.
-- Answers {1, the microseconds until it is there}, {0, the same}: it is not taken, or
-- {-1, why it cannot be}.
local cost, burst, wait = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local another = in_use_as_another('a limiter')
if not another and redis.call('exists', lock) == 1 and redis.call('get', mark) ~= 'a limiter' then
    another = 'is in use as a counter, not as a limiter'
end
if another then
    return {-1, another}
end
local time = redis.call('time')
local now = time[1] * 1000000 + time[2]
local full = math.max(tonumber(redis.call('get', lock) or '0'), now) + cost
local delay = full - burst - now
if delay > wait then
    return {0, delay}
end
local life = math.ceil((full - now) / 1000) + 1000
redis.call('set', mark, 'a limiter', 'px', life)
-- mutant: limiter-forgets-what-was-taken
redis.call('set', lock, string.format('%.0f', full), 'px', life)
return {1, delay}
