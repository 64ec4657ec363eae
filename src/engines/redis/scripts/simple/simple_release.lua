-- SPDX-License-Identifier: Apache-2.0
-- Gives a lock back, if it is this owner's. No client is told: a waiter looks.
-- KEYS: the lock, its token. ARGV: the owner's text. Answers 1, or 0: it was not this owner's.
-- include plain_holder.lua
-- mutant: plain-lock-is-given-back
if holder ~= ARGV[1] then
    return 0
end
return redis.call('del', KEYS[1])
