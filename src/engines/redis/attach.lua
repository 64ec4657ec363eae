-- include names.lua
-- include queue.lua
-- include permits.lua
-- include rw.lua
-- Takes over what was left under a key, with the lease as it is: it changes its name, so that it can
-- be taken over once. Asking twice is asking once.
-- ARGV: the key it was left under, the owner's field, the prefix of its permits' ids.
-- Answers {1, token, milliseconds left, mode, permits}, or {0}: nobody has it under that key.
local key, field, prefix = ARGV[1], ARGV[2], ARGV[3]
local token = redis.call('get', last) or '0'

local function move(from, to)
    if redis.call('hexists', lock, to) == 1 then
        return true
    end
    if from == 'mode' or redis.call('hexists', lock, from) == 0 then
        return false
    end
    -- In this order: without any field the key would end, and its lease with it.
    redis.call('hset', lock, to, 1)
    redis.call('hdel', lock, from)
    return true
end

local function attach_permits()
    local old = string.gsub(string.sub(key, 1, 26), '%x%x', function(digits)
        return string.char(tonumber(digits, 16))
    end)
    local count = 0
    if #key ~= 32 or #old ~= 13 then
        return {0}
    end
    while true do
        local ends = redis.call('zscore', permits, id_of(old, count))
        if not ends then
            break
        end
        redis.call('zrem', permits, id_of(old, count))
        redis.call('zadd', permits, ends, id_of(prefix, count))
        count = count + 1
    end
    while count == 0 or redis.call('zscore', permits, id_of(prefix, count)) do
        if not redis.call('zscore', permits, id_of(prefix, count)) then
            return {0}
        end
        count = count + 1
    end
    local ends = tonumber(redis.call('zscore', permits, id_of(prefix, 0)))
    return {1, token, ends - now_ms, 'permit', count}
end

local function attach_rw()
    if move(key .. ':write', field .. ':write') then
        return {1, token, redis.call('pttl', lock), 'write', 0}
    end
    if not move(key, field) then
        return {0}
    end
    if redis.call('exists', life_of(key, 1)) == 1 then
        redis.call('rename', life_of(key, 1), life_of(field, 1))
    end
    return {1, token, redis.call('pttl', life_of(field, 1)), 'read', 0}
end

local is = redis.call('type', lock).ok
if is == 'string' then
    return attach_permits()
elseif is ~= 'hash' then
    return {0}
elseif redis.call('hexists', lock, 'mode') == 1 then
    return attach_rw()
elseif move(key, field) then
    return {1, token, redis.call('pttl', lock), 'mutex', 0}
end
return {0}
