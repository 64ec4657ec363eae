-- SPDX-License-Identifier: Apache-2.0
-- Permits are members of `permits`, by when their leases end. The ids of one owner's are its prefix
-- and a number; a Java client's are 16 random bytes each.
local function id_of(prefix, number)
    return prefix .. string.char(math.floor(number / 65536) % 256, math.floor(number / 256) % 256,
                                 number % 256)
end

-- As Redisson shows it, and as others know its owner by its first one.
local function hex(id)
    return (string.gsub(id, '.', function(byte)
        return string.format('%02x', string.byte(byte))
    end))
end

local function has_in_all(total)
    return 'has ' .. total .. (total == 1 and ' permit' or ' permits')
end

local function tell_free(free)
    if free > 0 then
        redis.pcall('spublish', channel, free)
    end
end

-- What has no owner any more is free, unless the semaphore is gone, or the name has been
-- overwritten. Where it may not be counted, it is left to a user that may, as something that has
-- run out.
local function set_free(ids)
    -- mutant: semaphore-that-is-gone-comes
    local counts = #ids > 0 and redis.pcall('exists', lock) ~= 0
    -- mutant: permits-that-ran-out-are-gone
    local free = counts and redis.pcall('incrby', lock, #ids) or 0
    if type(free) == 'number' then
        tell_free(free)
        return
    elseif string.find(free.err, 'WRONGTYPE', 1, true) or
        string.find(free.err, 'not an integer', 1, true) then
        return
    end
    for _, id in ipairs(ids) do
        -- mutant: permit-is-gone-that-may
        redis.call('zadd', permits, 0, id)
    end
    local left = redis.call('pttl', lock)
    if left > 0 then
        redis.call('pexpire', permits, left)
    end
    error(free.err, 0)
end

-- Takes back what has run out.
local function reap()
    repeat
        local over = redis.call('zrangebyscore', permits, '-inf', now_ms, 'limit', 0, 1000)
        for _, id in ipairs(over) do
            redis.call('zrem', permits, id)
        end
        set_free(over)
    until #over < 1000
end

-- How many of the `wanted` permits the owner has.
local function count_of(prefix, wanted)
    local count = 0
    for number = 0, wanted - 1 do
        if redis.call('zscore', permits, id_of(prefix, number)) then
            count = count + 1
        elseif number == 0 then
            return 0
        end
    end
    return count
end

-- Gives back what the owner has of the `wanted` permits; answers how many that were.
local function give_back(prefix, wanted)
    local ids = {}
    for number = 0, wanted - 1 do
        local id = id_of(prefix, number)
        if redis.call('zrem', permits, id) == 1 then
            ids[#ids + 1] = id
        end
    end
    set_free(ids)
    return #ids
end
