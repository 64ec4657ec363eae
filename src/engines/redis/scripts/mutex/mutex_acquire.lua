-- SPDX-License-Identifier: Apache-2.0
-- Takes a mutex. mutex_take.lua says what it answers.
-- KEYS: the lock, its token, the queue of our clients that wait. ARGV: the token's time to live, the
-- queue's; the owner's field, the lease in ms, whether it waits.
-- include mutex_take.lua
return take(KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5])
