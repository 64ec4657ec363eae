-- Gives a mutex back. mutex_give.lua says what it answers.
-- KEYS: the lock, its channel, its token, the queue of our clients that wait. ARGV: the token's time
-- to live, the lease in ms of who is given it; the owner's field.
-- include mutex_give.lua
return give(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], ARGV[2], ARGV[3])
