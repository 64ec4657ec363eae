-- SPDX-License-Identifier: Apache-2.0
-- Renews many leases of read and write holds at once.
-- KEYS: the locks; in a cluster, then for each the other key of its lease, or the lock again. ARGV:
-- the lease in ms of them all; for each the owner's field.
-- include renew_each.lua
local lease, count = tonumber(ARGV[1]), #ARGV - 1

local function renew(lock, field)
    if redis.call('hexists', lock, field .. ':write') == 1 then
        return redis.call('pexpire', lock, lease) == 1
    end
    local base = string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'
    local life = base .. ':' .. field .. ':rwlock_timeout:1'
    -- mutant: read-hold-own-lease
    if redis.call('hexists', lock, field) == 0 or redis.call('pexpire', life, lease) == 0 then
        return false
    end
    if redis.call('pttl', lock) < lease then
        redis.call('pexpire', lock, lease)
    end
    return true
end

local function renew_the_rest()
    for number = at + 1, count do
        at = number
        if not renew(KEYS[number], ARGV[number + 1]) then
            lost(number)
        end
    end
end

return renew_each(count, renew_the_rest)
