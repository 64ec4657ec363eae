-- Renews the leases of many owners' permits at once. One that went wrong does not stop the others.
-- KEYS: the semaphores; in a cluster, then for each the set of those that are taken. ARGV: the lease in
-- ms of them all; for each the ids' prefix, and how many.
-- Answers how many there are, and then the numbers of those that are not all their owner's (any more).
-- include semaphore_lease.lua
local lease, count = tonumber(ARGV[1]), (#ARGV - 1) / 2
local answer = {count}
for i = 1, count do
    if renew(KEYS[i], ARGV[2 * i], tonumber(ARGV[2 * i + 1]), lease, false) == 0 then
        answer[#answer + 1] = i
    end
end
return answer
