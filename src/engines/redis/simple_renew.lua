-- Renews many leases at once. One that went wrong does not stop the others.
-- KEYS: the locks. ARGV: for each the owner's text and the lease in ms.
-- Answers for each 1, or 0: it is not this owner's (any more).
local renewed = {}
for i, lock in ipairs(KEYS) do
    if redis.pcall('get', lock) == ARGV[2 * i - 1] then
        renewed[i] = redis.call('pexpire', lock, ARGV[2 * i])
    else
        renewed[i] = 0
    end
end
return renewed
