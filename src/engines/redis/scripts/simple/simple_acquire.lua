-- SPDX-License-Identifier: Apache-2.0
-- Takes a lock of the plain kind. simple_take.lua says what it answers.
-- KEYS: the lock, its token. ARGV: the owner's text, the lease in ms, the token's time to live; and
-- for one server of several, the least that the token may be.
-- include simple_take.lua
return take(KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[4])
