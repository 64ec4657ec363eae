-- SPDX-License-Identifier: Apache-2.0
-- Renews the leases of many owners' permits at once.
-- KEYS: the semaphores; in a cluster, then for each the set of those that are taken. ARGV: the lease in
-- ms of them all; for each the ids' prefix, and how many.
-- include semaphore_lease.lua
-- include renew_each.lua
local lease, count = tonumber(ARGV[1]), (#ARGV - 1) / 2

local function renew_the_rest()
    for number = at + 1, count do
        at = number
        local wanted = tonumber(ARGV[2 * number + 1])
        if renew(KEYS[number], ARGV[2 * number], wanted, lease, false) == 0 then
            lost(number)
        end
    end
end

return renew_each(count, renew_the_rest)
