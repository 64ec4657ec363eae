-- Renews the leases of many owners' permits at once. One that went wrong does not stop the others.
-- KEYS: the semaphores; in a cluster, then for each the set of those that are taken. ARGV: for each
-- the ids' prefix, how many, the lease in ms, 1 if it is never to become shorter. Answers for each 1, or 0: not all are this owner's (any more).
-- include semaphore_lease.lua
local renewed = {}
for i = 1, #ARGV / 4 do
    local at = 4 * i - 3
    renewed[i] = renew(KEYS[i], ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]),
                       ARGV[at + 3] == '1')
end
return renewed
