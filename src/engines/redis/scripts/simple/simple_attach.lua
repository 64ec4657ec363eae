-- SPDX-License-Identifier: Apache-2.0
-- Takes over a lock that was left under a text, with the lease as it is: the text changes, so that it
-- can be taken over once. Attempting twice has the effect of attempting once.
-- KEYS: the lock, its token. ARGV: the text it was left under, the owner's text.
-- Answers {1, token, milliseconds left}, or {0}: it is not held under that text.
-- include plain_holder.lua
local left = redis.call('pttl', KEYS[1])
if holder == ARGV[1] and left > 0 then
    redis.call('set', KEYS[1], ARGV[2], 'px', left)
elseif holder ~= ARGV[2] then
    return {0}
end
return {1, redis.call('get', KEYS[2]) or '0', left}
