-- SPDX-License-Identifier: Apache-2.0
-- include names.lua
-- include queue.lua
-- include permits.lua
-- include ours.lua
-- include reader_life.lua
-- Shows a lock: nothing is changed.
-- KEYS end with the mutex's channel. ARGV: the queue of our clients that wait for a mutex, the queue of
-- a fair mutex, and its times.
-- Answers {kind, total, value, the last token, holders, waiters, 1 if the name is in use or 0, 1 if
-- it is a number without a mark or 0}, or {why}: it is no lock. A holder is {mode, permits, its key, milliseconds left}; waiters are the
-- same, in order, with how long they have waited, -1 where that is not known, or just their number.
local is = redis.call('type', lock).ok
local token = redis.call('get', last) or '0'

-- Places are in line by when they came, in microseconds.
local function age_of(score)
    local came = tonumber(score)
    came = came < 0 and came + FRONT or came
    return math.max(0, now_ms - math.floor(came / 1000))
end

local function places()
    local waiters = {}
    local all = redis.call('zrange', queue, 0, 9999, 'withscores')
    for i = 1, #all, 2 do
        local ends = tonumber(redis.call('zscore', alive, all[i]) or '0')
        if ends > now_ms then
            local mode, wanted, owner = string.match(all[i], '^(%a+) (%d+) (.*)$')
            waiters[#waiters + 1] = {mode, wanted, owner, age_of(all[i + 1])}
        end
    end
    return waiters
end

-- Before it has a place a client of ours listens to its inbox at this server: a grant relies on it,
-- too. A user that may not ask is shown all of them.
local lives = {}
local function may_live(field)
    local client = string.sub(field, 1, 36)
    if lives[client] == nil then
        local counts = is_ours(field) and redis.pcall('pubsub', 'numsub', 'holdfast:' .. client)
        -- mutant: owner-was-killed-is-shown
        lives[client] = not counts or counts[2] ~= 0
    end
    return lives[client]
end

local function show_mutex()
    local holders, waiters = {}, {}
    local fair = redis.call('lrange', ARGV[2], 0, 9999)
    local mode = fair[1] and 'fair' or 'mutex'
    local left = redis.call('pttl', lock)
    for i, field in ipairs(redis.call('hkeys', lock)) do
        holders[i] = {mode, 0, field, left}
    end
    -- Ours stand in the queue. They listen, too, as all the others do, if another library's client
    -- has it.
    local ours = redis.call('zrange', ARGV[1], 0, 9999, 'withscores')
    for i = 1, #ours, 2 do
        if may_live(ours[i]) then
            waiters[#waiters + 1] = {'mutex', 0, ours[i], age_of(ours[i + 1])}
        end
    end
    -- The other queue, and the channel, are those of "name" as well as of "{name}".
    local in_use = #holders + #waiters > 0 and 1 or 0
    local listeners = redis.pcall('pubsub', 'shardnumsub', channel)[2] or 0
    if holders[1] and not is_ours(holders[1][3]) then
        listeners = listeners - #waiters
    end
    for i = 1, math.min(listeners, 1000) do
        waiters[#waiters + 1] = {'mutex', 0, '', -1}
    end
    -- The dead stay until another client comes by.
    for _, field in ipairs(fair) do
        local ends = redis.call('zscore', ARGV[3], field)
        if ends and tonumber(ends) > now_ms then
            waiters[#waiters + 1] = {mode, 0, field, -1}
        end
    end
    local kind = (is ~= 'none' or token ~= '0') and mode or ''
    return {kind, 0, 0, token, holders, waiters, in_use, 0}
end

local function show_rw()
    local holders, waiters = {}, places()
    local all = redis.call('hgetall', lock)
    for i = 1, #all, 2 do
        local field, holds = all[i], tonumber(all[i + 1])
        if string.sub(field, -6) == ':write' then
            holders[#holders + 1] = {'write', 0, string.sub(field, 1, -7), redis.call('pttl', lock)}
        elseif holds then
            -- mutant: reader-is-shown-by-last
            local left = left_of(field, holds)
            if left > 0 then
                local mode = is_upgrader(field) and 'upgrade' or 'read'
                holders[#holders + 1] = {mode, 0, field, left}
            end
        end
    end
    return {'rw', 0, 0, token, holders, waiters, (#holders > 0 or #waiters > 0) and 1 or 0, 0}
end

local function show_semaphore()
    local holders, of_prefix = {}, {}
    local free = tonumber(redis.call('get', lock))
    local all = redis.call('zrange', permits, 0, -1, 'withscores')
    local total = free + #all / 2
    for i = 1, #all, 2 do
        local left = tonumber(all[i + 1]) - now_ms
        local prefix = string.sub(all[i], 1, 13)
        if left <= 0 then
            free = free + 1
        elseif of_prefix[prefix] then
            of_prefix[prefix][2] = of_prefix[prefix][2] + 1
        else
            of_prefix[prefix] = {'permit', 1, hex(all[i]), left}
            holders[#holders + 1] = of_prefix[prefix]
        end
    end
    return {'semaphore', total, free, token, holders, places(), 1, 0}
end

-- mutant: text-is-counter-at-zero
if is == 'string' and tonumber(redis.call('get', lock)) then
    local kind = kind_by(redis.call('get', mark), redis.call('get', lock))
    if redis.call('exists', permits) == 1 or kind == 'a semaphore' then
        return show_semaphore()
    end
    local shown = kind and string.sub(kind, 3) or 'counter'
    local value = redis.call('get', lock)
    if kind == 'a limiter' then
        value = math.max(0, math.floor(tonumber(value) / 1000) - now_ms)
    end
    return {shown, 0, value, '0', {}, places(), 1, kind and 0 or 1}
end
local kind_of_lock = is == 'hash' and kind_of_hash(lock, true)
if is ~= 'none' and not kind_of_lock then
    return {no_lock()}
elseif kind_of_lock == 'a read-write lock' then
    return show_rw()
end
local waiting = is == 'none' and places() or {}
if #waiting > 0 then
    local kinds = {read = 'rw', upgrade = 'rw', write = 'rw', permit = 'semaphore',
                   counter = 'counter', latch = 'latch'}
    return {kinds[waiting[1][1]], 0, 0, token, {}, waiting, 1, 0}
end
return show_mutex()
