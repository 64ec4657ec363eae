-- Renews many leases of read and write holds at once. One that went wrong does not stop the others.
-- KEYS: the locks; in a cluster, then for each the other key of its lease, or the lock again. ARGV:
-- for each the owner's field and the lease in ms.
-- Answers for each 1, or 0: it is not this owner's (any more).
local function renew(lock, field, lease)
    if redis.call('hexists', lock, field .. ':write') == 1 then
        return redis.call('pexpire', lock, lease)
    end
    local base = string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'
    local life = base .. ':' .. field .. ':rwlock_timeout:1'
    if redis.call('hexists', lock, field) == 0 or redis.call('pexpire', life, lease) == 0 then
        return 0
    end
    if redis.call('pttl', lock) < lease then
        redis.call('pexpire', lock, lease)
    end
    return 1
end

local renewed = {}
for i = 1, #ARGV / 2 do
    local lock = KEYS[i]
    local is = redis.call('type', lock).ok
    renewed[i] = is == 'hash' and renew(lock, ARGV[2 * i - 1], tonumber(ARGV[2 * i])) or 0
end
return renewed
