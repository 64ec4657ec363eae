-- SPDX-License-Identifier: Apache-2.0
-- Takes a fair mutex for one owner, if no claim is before it. Attempting twice has the effect
-- of attempting once, does not make a lease shorter, and keeps the place in the queue alive.
-- KEYS: the lock, its token, the queue, the times. ARGV: the owner's field, the lease in ms, the
-- token's time to live, 0: it does not wait, 1: it is going to, 2: it may wait already; how long a
-- place in the queue lives, by how much another library's client that takes the lock moves the
-- times of those behind it, the lease in ms of the claim that is given it, the channel.
-- Answers {1, token}, {0, milliseconds until it may be free, 1 if another library's client has it,
-- or comes before, or 0}, or {-1, what it is in use as}.
-- include fair_pass_on.lua
-- include hash_kind.lua
-- include no_hash.lua
local lock, last, queue, times = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local me = ARGV[1]

-- Before 3.32, a client of Redisson sleeps until the one before it is dead, and if that time is
-- over, until it is told. Our time is short, and begins anew while we wait: theirs go with it.
local function keep_distance(waiting, place, ends)
    local function time_of(i)
        return tonumber(redis.call('zscore', times, waiting[i]) or '')
    end
    for i = place + 1, #waiting do
        -- Where there are only ours, no time is looked at, however many they are.
        if not is_ours(waiting[i]) then
            if i > place + 1 and is_ours(waiting[i - 1]) then
                ends = time_of(i - 1) or ends
            end
            local time = time_of(i)
            if time and time < ends + ARGV[6] then
                time = ends + ARGV[6]
                redis.call('zadd', times, time, waiting[i])
            end
            -- mutant: only-first-of-those-behind-us
            ends = time or ends
        end
    end
end

local field = redis.pcall('hexists', lock, me)
if type(field) == 'table' then
    local why = why_no_hash(lock)
    return why and {-1, why} or field
end
local ours = field == 1
local held = redis.call('exists', lock) == 1
local kind = 'a mutex'
if held and not ours then
    kind = kind_of_hash(lock) or 'something that is no lock'
end
if kind ~= 'a mutex' then
    return {-1, 'is in use as ' .. kind .. ', not as a mutex'}
end
local first = drop_the_dead(queue, times)
-- mutant: fair-lock-free-time-is-none
if not held and first and first ~= me then
    pass_on_fairly(lock, queue, times, ARGV[8], last, me, ARGV[3], ARGV[7])
    held = redis.call('exists', lock) == 1
    first = redis.call('lindex', queue, 0)
end
-- mutant: fair-newcomer-does-not-look
if ours or not held and (not first or first == me) then
    local token = ours and last_token(last) or next_token(last, ARGV[3], me)
    redis.call('hset', lock, me, 1)
    -- A waiter may have been given the lock with a lease that is longer than its own.
    local left = ours and redis.call('pttl', lock) or -1
    local shorter = ARGV[4] == '2' and left <= tonumber(ARGV[7]) and left > tonumber(ARGV[2])
    if left < tonumber(ARGV[2]) or shorter then
        redis.call('pexpire', lock, ARGV[2])
    end
    if ARGV[4] == '2' then
        redis.call('zrem', times, me)
        redis.call('lrem', queue, 0, me)
        keep_for_others(queue, times)
    end
    -- Those that wait may have seen the longer one, and would sleep until it is over.
    -- mutant: shorter-fair-lease-is-not-told
    first = shorter and redis.call('lindex', queue, 0)
    if first and not tell(first, '0 0') then
        redis.pcall('spublish', ARGV[8] .. ':' .. first, '0')
    end
    return {1, token}
end
local others = held and not is_ours(redis.call('hkeys', lock)[1])
if ARGV[4] ~= '0' then
    local waiting, place, others_before = redis.call('lrange', queue, 0, -1), 1, 0
    while waiting[place] and waiting[place] ~= me do
        others_before = others_before + (is_ours(waiting[place]) and 0 or 1)
        place = place + 1
    end
    if not waiting[place] then
        redis.call('rpush', queue, me)
        waiting[place] = me
    end
    -- mutant: places-do-not-outlive-redisson
    local ends = now_ms() + ARGV[5] + others_before * ARGV[6]
    redis.call('zadd', times, ends, me)
    -- mutant: owner-waits-behind-us-in-fair
    keep_distance(waiting, place, ends)
    -- mutant: fair-queue-of-our-clients
    set_queue_end(queue, times, waiting)
    others = others or others_before > 0
end
local left = held and redis.call('pttl', lock) or redis.call('zscore', times, first) - now_ms()
return {0, left, others and 1 or 0}
