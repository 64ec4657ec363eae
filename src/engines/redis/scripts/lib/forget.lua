-- SPDX-License-Identifier: Apache-2.0
-- Removes the last token of a lock that is free, unless the clock is behind it: a later one must be
-- larger. A counter without an end is a Java client's, and stays.
-- KEYS: the lock, its token. ARGV: the queues of those that wait, if it can have any. Answers 1, or 0:
-- it is in use.
for _, key in ipairs({KEYS[1], unpack(ARGV)}) do
    if redis.call('exists', key) == 1 then
        return 0
    end
end
local token = tonumber(redis.call('get', KEYS[2]) or nil)
local time = redis.call('time')
if token and token < time[1] * 1000000 + time[2] and redis.call('pttl', KEYS[2]) >= 0 then
    redis.call('del', KEYS[2])
end
return 1
