-- SPDX-License-Identifier: Apache-2.0
-- What belongs to a lock, in the order of KEYS (keys.c), and what kind of thing it is.
-- include hash_kind.lua
-- include mark.lua
local lock, last, queue, alive, mark, permits, channel = unpack(KEYS)

-- A sentence's end about something that is no lock of this format.
local function no_lock()
    local is = redis.call('type', lock).ok
    if is == 'string' then
        return 'is a text, and no lock of this format; is format=simple meant?'
    end
    return 'is there, but is no lock: it has the type ' .. is
end

-- What the lock is in use as, unless that is `wanted`: a sentence's end; or nil. A plain number may
-- be a Java client's of any kind that is one; ours have a mark. One that has stayed without
-- its number is removed.
local function in_use_as_another(wanted)
    local is_number = wanted ~= 'a read-write lock'
    local is = redis.call('type', lock).ok
    if is == 'none' then
        -- mutant: mark-of-what-is-gone-stays
        if is_number then
            redis.pcall('del', mark)
        end
        return nil
    end
    local kind = 'something that is no lock (of the type ' .. is .. ')'
    if is == 'hash' then
        kind = kind_of_hash(lock) or kind
    elseif is == 'string' and tonumber(redis.call('get', lock)) then
        -- mutant: latch-is-set-over-another-kind
        kind = kind_by(redis.call('get', mark), redis.call('get', lock))
        if not kind and is_number then
            redis.pcall('del', mark)
        end
        kind = kind or wanted
        if redis.call('exists', permits) == 1 then
            kind = 'a semaphore'
        end
    elseif is == 'string' then
        return no_lock()
    end
    if kind == wanted then
        return nil
    end
    return 'is in use as ' .. kind .. ', not as ' .. wanted
end
