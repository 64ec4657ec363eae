-- Renews many leases of read and write holds at once. One that went wrong does not stop the others.
-- KEYS: the locks; in a cluster, then for each the other key of its lease, or the lock again. ARGV:
-- the lease in ms of them all; for each the owner's field.
-- Answers how many there are, and then the numbers of those that are not their owner's (any more).
local lease, answer = tonumber(ARGV[1]), {#ARGV - 1}

local function renew(lock, field)
    if redis.call('hexists', lock, field .. ':write') == 1 then
        return redis.call('pexpire', lock, lease) == 1
    end
    local base = string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'
    local life = base .. ':' .. field .. ':rwlock_timeout:1'
    if redis.call('hexists', lock, field) == 0 or redis.call('pexpire', life, lease) == 0 then
        return false
    end
    if redis.call('pttl', lock) < lease then
        redis.call('pexpire', lock, lease)
    end
    return true
end

for i = 1, #ARGV - 1 do
    if redis.call('type', KEYS[i]).ok ~= 'hash' or not renew(KEYS[i], ARGV[i + 1]) then
        answer[#answer + 1] = i
    end
end
return answer
