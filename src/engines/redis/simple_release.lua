-- Gives a lock back, if it is this owner's. Nobody is told: who waits looks.
-- KEYS: the lock, its token. ARGV: the owner's text. Answers 1, or 0: it was not this owner's.
local holder = redis.pcall('get', KEYS[1])
if holder ~= ARGV[1] then
    -- Who may not look does not know.
    local unknown = type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE', 1, true)
    return unknown and holder or 0
end
return redis.call('del', KEYS[1])
