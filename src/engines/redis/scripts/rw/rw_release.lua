-- SPDX-License-Identifier: Apache-2.0
-- include names.lua
-- include queue.lua
-- include rw.lua
-- Gives a read or write hold back, and a place in line; or makes a write hold a read hold, with the
-- lease that it has. A waiter that may go on then is told: a message as Java's clients expect it.
-- ARGV: the owner's field, "read" if that is what stays. Answers 1, or 0: it was not this owner's;
-- or -1, if the name has been overwritten.
local field, keep = ARGV[1], ARGV[2]
local writer = field .. ':write'

-- What a release of a reader leaves to the others, as Java counts it.
local function shorten()
    if redis.call('hlen', lock) > 100 then
        return
    end
    local most = 0
    local all = redis.call('hgetall', lock)
    for i = 1, #all, 2 do
        local holds = tonumber(all[i + 1])
        most = math.max(most, holds and left_of(all[i], holds) or 0)
    end
    redis.call('pexpire', lock, most)
end

local function writer_leaves()
    if keep == 'read' then
        redis.call('set', life_of(field, 1), 1, 'px', math.max(1, redis.call('pttl', lock)))
        redis.call('hset', lock, field, 1)
    end
    redis.call('hdel', lock, writer)
    if redis.call('hlen', lock) == 1 then
        redis.call('del', lock)
    else
        redis.call('hset', lock, 'mode', 'read')
    end
    -- mutant: downgrade-tells-none
    redis.pcall('spublish', channel, '1')
    return 1
end

local function reader_leaves()
    redis.call('hdel', lock, field)
    local alive = redis.call('del', life_of(field, 1))
    if redis.call('hget', lock, 'mode') == 'write' then
        return alive
    end
    if living_reader() == 0 then
        redis.call('del', lock)
        -- mutant: last-reader-release-tells-none
        redis.pcall('spublish', channel, '0')
    else
        shorten()
    end
    return alive
end

local waited = leave_line('read 0 ' .. field)
waited = leave_line('write 0 ' .. field) or waited
local released = 0
local is = redis.call('type', lock).ok
if is ~= 'hash' then
    released = is == 'none' and 0 or -1
elseif redis.call('hexists', lock, writer) == 1 then
    released = writer_leaves()
elseif keep == 'read' then
    released = redis.call('exists', life_of(field, 1))
elseif redis.call('hexists', lock, field) == 1 then
    released = reader_leaves()
end
if waited and redis.call('exists', queue) == 1 then
    redis.pcall('spublish', channel, '1')
end
return released
