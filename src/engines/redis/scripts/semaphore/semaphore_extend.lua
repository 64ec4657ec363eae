-- SPDX-License-Identifier: Apache-2.0
-- Gives a fixed lease at least the asked length from now, never less than it has left.
-- KEYS: the semaphore, the set of what is taken. ARGV: the ids' prefix, how many, the lease in ms.
-- Answers 1, or 0: not all are this owner's.
-- include semaphore_lease.lua
return renew(KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), true)
