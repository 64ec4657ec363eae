-- SPDX-License-Identifier: Apache-2.0
-- Renews many leases at once.
-- KEYS: the locks. ARGV: the lease in ms of them all; for each the owner's text.
-- include lease_end.lua
-- include renew_each.lua
-- All are read at once, which costs less than one by one, unless the server refuses one of them; what
-- is no text reads as nothing.
local readable, holders = pcall(redis.call, 'mget', unpack(KEYS))

local function renew_the_rest()
    local call, locks, arguments, lease_end = redis.call, KEYS, ARGV, lease_end
    for number = at + 1, #locks do
        at = number
        local lock = locks[number]
        local holder = readable and holders[number] or not readable and call('mget', lock)[1]
        -- mutant: plain-lock-that-another-else
        if holder == arguments[number + 1] then
            call('pexpireat', lock, lease_end)
        else
            lost(number)
        end
    end
end

return renew_each(#KEYS, renew_the_rest)
