-- SPDX-License-Identifier: Apache-2.0
-- Gives a fair mutex back, if it is this owner's, or its place in the queue, and passes on what is
-- free.
-- KEYS: the lock, its token, the queue, the times. ARGV: the owner's field, the token's time to
-- live, the lease in ms of the claim that is given it, the channel.
-- Answers 1, or 0: it was not this owner's; or -1, if the name has been overwritten.
-- include fair_pass_on.lua
-- include overwritten.lua
local lock, last, queue, times = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local held = redis.pcall('hdel', lock, ARGV[1])
-- mutant: place-in-fair-queue-outlives
if held ~= 1 then
    redis.call('zrem', times, ARGV[1])
    -- mutant: fair-place-outlives-its-claim
    redis.call('lrem', queue, 0, ARGV[1])
    keep_for_others(queue, times)
end
if redis.call('exists', lock) == 0 then
    pass_on_fairly(lock, queue, times, ARGV[4], last, '', ARGV[2], ARGV[3])
end
return lost_or(held)
