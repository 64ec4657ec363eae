-- SPDX-License-Identifier: Apache-2.0
-- Gives a fixed lease at least the asked length from now, never less than it has left.
-- KEYS: the lock. ARGV: the owner's field, the lease in ms. Answers 1, or 0: it is not this owner's.
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    return 0
end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then
    redis.call('pexpire', KEYS[1], ARGV[2])
end
return 1
