-- SPDX-License-Identifier: Apache-2.0
-- Gives a fixed lease at least the asked length from now, never less than it has left.
-- KEYS: the lock, the other key of its lease or the lock again. ARGV: the owner's field, the lease in
-- ms. Answers 1, or 0: it is not this owner's.
local lock, field, lease = KEYS[1], ARGV[1], tonumber(ARGV[2])
local function at_least(key)
    if redis.call('pttl', key) < lease then
        redis.call('pexpire', key, lease)
    end
end

if redis.call('hexists', lock, field .. ':write') == 0 then
    local base = string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'
    local life = base .. ':' .. field .. ':rwlock_timeout:1'
    if redis.call('hexists', lock, field) == 0 or redis.call('exists', life) == 0 then
        return 0
    end
    at_least(life)
end
at_least(lock)
return 1
