-- SPDX-License-Identifier: Apache-2.0
-- Raises the last token of a lock to at least a given one, so that each later grant has a larger one.
-- KEYS: the token. ARGV: the least that it may be, in digits; its time to live. Answers 1. A foreign
-- value that is no number stays: what asks for the lock behind this is told so.
local last = redis.call('get', KEYS[1])
local least = ARGV[1]
if last and not string.find(last, '^%d+$') then
    return 1
end
-- Both as digits, since Lua's numbers are doubles.
if not last or #last < #least or #last == #least and last < least then
    -- A counter without an end is a Java client's.
    local left = last and redis.call('pttl', KEYS[1]) or 0
    redis.call('set', KEYS[1], least)
    if left >= 0 then
        redis.call('pexpire', KEYS[1], ARGV[2])
    end
end
return 1
