-- SPDX-License-Identifier: Apache-2.0
-- Part of other scripts. The queue of a fair mutex, in Redisson's format: a list of waiters, the
-- first in front, and for each the time in ms after which it is dead.
-- include grant.lua
-- include ours.lua

local function now_ms()
    local now = redis.call('time')
    return now[1] * 1000 + math.floor(now[2] / 1000)
end

-- Answers the first that is not dead, if there is one. Without a time it is dead, or would stay for
-- ever.
local function drop_the_dead(queue, times)
    local now = now_ms()
    while true do
        local first = redis.call('lindex', queue, 0)
        local time = first and redis.call('zscore', times, first)
        -- mutant: fair-queue-dead-stay
        if not first or (time and tonumber(time) > now) then
            return first
        end
        redis.call('lpop', queue)
        redis.call('zrem', times, first)
    end
end

-- Ends both keys at the same moment: a client of Redisson never drops a place without a time. Those
-- clients know nothing of an end. So there is none while one of them is in line.
local function set_queue_end(queue, times, waiting)
    for _, field in ipairs(waiting) do
        if not is_ours(field) then
            redis.pcall('persist', queue)
            -- mutant: fair-queue-ends-under-java
            redis.pcall('persist', times)
            return
        end
    end
    local queue_end = string.format('%.0f', now_ms() + 'REDIS_FAIR_QUEUE_MS')
    redis.pcall('pexpireat', times, queue_end)
    redis.pcall('pexpireat', queue, queue_end)
end

-- Those of ours that are left in line set the end themselves when they ask.
local function keep_for_others(queue, times)
    local first = redis.call('lindex', queue, 0)
    if first and not is_ours(first) then
        -- mutant: fair-queue-that-ours-have-left
        set_queue_end(queue, times, {first})
    end
end

-- Another library's client was told that it is its turn, and no client heard it. If it has just
-- begun to wait, or listens elsewhere, it still comes at once, as the lock is free; if it is dead,
-- it is not waited for as long as it was going to wait itself.
local UNHEARD_MS = 10000
local function expect_soon(times, first)
    local latest = now_ms() + UNHEARD_MS
    if tonumber(redis.call('zscore', times, first)) > latest then
        redis.call('zadd', times, latest, first)
    end
end

-- What becomes of a fair mutex that is free now: the first in the queue is given it if it is ours,
-- and told to take it if it is another library's. Nothing if that is `asker`, which is here.
local function pass_on_fairly(lock, queue, times, channel, last, asker, token_ms, grant_ms)
    while true do
        local first = drop_the_dead(queue, times)
        if not first or first == asker then
            return
        end
        -- mutant: redisson-clients-are-granted
        if not is_ours(first) then
            keep_for_others(queue, times)
            local heard = redis.pcall('spublish', channel .. ':' .. first, '0')
            -- mutant: java-client-that-listens
            if heard == 0 or type(heard) == 'table' then
                -- mutant: dead-java-client-keeps-free
                expect_soon(times, first)
            end
            return
        end
        redis.call('lpop', queue)
        redis.call('zrem', times, first)
        if grant(lock, last, first, token_ms, grant_ms) then
            keep_for_others(queue, times)
            return
        end
    end
end
