-- SPDX-License-Identifier: Apache-2.0
-- include names.lua
-- include queue.lua
-- include permits.lua
-- include rw.lua
-- Takes over what was left under a key, with the lease as it is: it changes its name, so that it can
-- be taken over once. Attempting twice has the effect of attempting once.
-- ARGV: the key it was left under, the owner's field, the prefix of its permits' ids, "back": it
-- goes back under the key, as it was.
-- Answers {1, token, milliseconds left, mode, permits}, or {0}: it is not left under that key.
local from, to = ARGV[1], ARGV[2]
local from_ids, to_ids = string.gsub(string.sub(from, 1, 26), '%x%x', function(digits)
    return string.char(tonumber(digits, 16))
end), ARGV[3]
local has_ids = #from == 32 and #from_ids == 13
if ARGV[4] == 'back' then
    from, to, from_ids, to_ids = to, from, to_ids, from_ids
end
local token = redis.call('get', last) or '0'

-- The server does not undo what a script has done that it stops: a user that may not take away must
-- not add. So what is going to be added is taken away first, which changes nothing.
local function move(old, new)
    if old == 'mode' or redis.call('hexists', lock, old) == 0 then
        return redis.call('hexists', lock, new) == 1
    end
    -- mutant: owner-may-add-and-not-take
    redis.call('hdel', lock, new)
    -- In this order: without any field the key would end, and its lease with it.
    redis.call('hset', lock, new, 1)
    -- mutant: key-opens-twice
    redis.call('hdel', lock, old)
    return true
end

local function attach_permits()
    local count, first = 0, nil
    if not has_ids then
        return {0}
    end
    while true do
        local ends = redis.call('zscore', permits, id_of(from_ids, count))
        if not ends then
            break
        end
        if not first then
            redis.call('zrem', permits, id_of(to_ids, count))
        end
        -- mutant: permit-that-may-not-be-added
        redis.call('zadd', permits, ends, id_of(to_ids, count))
        redis.call('zrem', permits, id_of(from_ids, count))
        first = first or ends
        count = count + 1
    end
    -- Nothing, or they have been taken over before.
    while not first or redis.call('zscore', permits, id_of(to_ids, count)) do
        first = first or redis.call('zscore', permits, id_of(to_ids, 0))
        if not first then
            return {0}
        end
        count = count + 1
    end
    return {1, token, tonumber(first) - now_ms, 'permit', count}
end

local function attach_rw()
    if move(from .. ':write', to .. ':write') then
        return {1, token, redis.call('pttl', lock), 'write', 0}
    end
    if not move(from, to) then
        return {0}
    end
    if redis.call('exists', life_of(from, 1)) == 1 then
        redis.call('rename', life_of(from, 1), life_of(to, 1))
    end
    local mode = is_upgrader(to) and 'upgrade' or 'read'
    return {1, token, redis.call('pttl', life_of(to, 1)), mode, 0}
end

local is = redis.call('type', lock).ok
if is == 'string' then
    return attach_permits()
elseif is ~= 'hash' then
    return {0}
elseif ARGV[4] ~= 'back' and redis.call('pttl', lock) < 0 then
    -- Its end was taken away: it is not what was left.
    return {0}
elseif redis.call('hexists', lock, 'mode') == 1 then
    return attach_rw()
elseif move(from, to) then
    return {1, token, redis.call('pttl', lock), 'mutex', 0}
end
return {0}
