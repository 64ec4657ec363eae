-- SPDX-License-Identifier: Apache-2.0
-- Renews many leases at once.
-- KEYS: the locks. ARGV: the lease in ms of them all; for each the owner's field.
-- include lease_end.lua
-- include renew_each.lua
local function renew_the_rest()
    local call, locks, arguments, lease_end = redis.call, KEYS, ARGV, lease_end
    for number = at + 1, #locks do
        at = number
        local lock = locks[number]
        -- mutant: renewal-asks-none-owners-lock
        if call('hexists', lock, arguments[number + 1]) == 1 then
            call('pexpireat', lock, lease_end)
        else
            lost(number)
        end
    end
end

return renew_each(#KEYS, renew_the_rest)
