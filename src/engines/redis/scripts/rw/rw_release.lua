-- SPDX-License-Identifier: Apache-2.0
-- include names.lua
-- include queue.lua
-- include rw.lua
-- Gives a hold back, and a place in line; or makes of it a weaker one, with the lease that it has. A
-- waiter that may go on then is told: a message as Java's clients expect it.
-- ARGV: the owner's field; what stays: "read", "upgrade" or "" for nothing; the number of the raise
-- that it goes down from, 0 for a claim that was only a reader. Answers 1, or 0: it was not this
-- owner's; or -1, if the name has been overwritten.
local field, keep, number = ARGV[1], ARGV[2], tonumber(ARGV[3])
local writer, life = field .. ':write', life_of(field, 1)
local kept = keep == 'upgrade' and UPGRADER or 1

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
    -- mutant: late-lowering-undoes-a-raise
    if keep ~= '' and (tonumber(redis.call('hget', lock, writer)) or 0) > number then
        return 1
    end
    if keep ~= '' then
        redis.call('set', life, kept, 'px', math.max(1, redis.call('pttl', lock)))
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

-- Does a raise wait? It goes on when this reader was the last but one.
local function raise_waits()
    local first = redis.call('zrange', queue, 0, 0, 'withscores')[2]
    return first and tonumber(first) < 0
end

local function tell_waiters()
    if redis.call('exists', queue) == 1 then
        redis.pcall('spublish', channel, '1')
    end
end

local function reader_goes_down()
    local upgrades = is_upgrader(field)
    if upgrades and keep == 'read' then
        redis.call('set', life, 1, 'px', math.max(1, redis.call('pttl', life)))
        tell_waiters()
    end
    return (upgrades or keep == 'read') and redis.call('exists', life) or 0
end

local function reader_leaves()
    local upgrades = number > 0 and is_upgrader(field)
    redis.call('hdel', lock, field)
    local alive = redis.call('del', life)
    if redis.call('hget', lock, 'mode') == 'write' then
        return alive
    end
    if living_reader() == 0 then
        redis.call('del', lock)
        -- mutant: last-reader-release-tells-none
        redis.pcall('spublish', channel, '0')
    else
        shorten()
        -- mutant: upgrader-release-tells-none
        if upgrades or raise_waits() then
            tell_waiters()
        end
    end
    return alive
end

local waited = leave_line('read 0 ' .. field, 'upgrade 0 ' .. field, 'write 0 ' .. field)
local released = 0
local is = redis.call('type', lock).ok
if is ~= 'hash' then
    released = is == 'none' and 0 or -1
elseif redis.call('hexists', lock, writer) == 1 then
    released = writer_leaves()
elseif keep ~= '' then
    released = reader_goes_down()
elseif redis.call('hexists', lock, field) == 1 then
    released = reader_leaves()
end
if waited then
    tell_waiters()
end
return released
