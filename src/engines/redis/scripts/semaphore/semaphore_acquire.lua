-- SPDX-License-Identifier: Apache-2.0
-- include names.lua
-- include queue.lua
-- include permits.lua
-- include token.lua
-- Takes permits for one owner, in the order of arrival, all of them or none. Attempting twice
-- has the effect of attempting once, and never makes a lease shorter.
-- ARGV: the ids' prefix, the lease in ms, the token's time to live, 1 if it is going to wait, the
-- owner's key, how many permits, how many the semaphore is to have in all or 0, the owner's
-- field.
-- Answers {1, token}, {0, milliseconds until some may be free}, or {-1, why it cannot be}, or the
-- same with -3 if it is the wish that cannot be.
local prefix, lease, waits, key = ARGV[1], tonumber(ARGV[2]), ARGV[4] == '1', ARGV[5]
local wanted, limit = tonumber(ARGV[6]), tonumber(ARGV[7])
local place = 'permit ' .. wanted .. ' ' .. key
drop_the_dead()
local another = in_use_as_another('a semaphore')
if not another then
    reap()
end
local free = not another and tonumber(redis.call('get', lock) or nil)
local is_new = not another and not free and limit > 0
if is_new then
    -- mutant: refused-wish-makes-semaphore
    free = limit
elseif not another and not free then
    another = 'does not exist; set how many permits it has, or name a limit'
end
local taken = redis.call('zcard', permits)
-- mutant: asking-for-permits-twice-takes
local ours = not another and count_of(prefix, wanted) == wanted
-- mutant: owner-has-permit-hears-of-size
if not another and not ours and limit > 0 and free + taken ~= limit then
    another = has_in_all(free + taken) .. ', not ' .. limit
end
if another then
    leave_line(place)
    return {-1, another}
end
-- mutant: owner-wants-more-permits
if not ours and wanted > free + taken then
    -- The semaphore may have become smaller while this one stood in the way of others.
    if leave_line(place) then
        tell_free(free)
    end
    return {-3, has_in_all(free + taken) .. ': ' .. wanted .. ' can never be had; ask for fewer'}
end

local function make(number)
    redis.call('set', lock, number)
    redis.call('set', mark, 'a semaphore')
    return number
end

-- mutant: small-wish-overtakes-large-one
if not ours and (free < wanted or is_behind(place)) then
    local first = redis.call('zrange', permits, 0, 0, 'withscores')[2]
    if waits then
        line_up(place)
    end
    -- What can be had later makes the semaphore, too; a wish that cannot leaves nothing.
    if is_new then
        make(limit)
    end
    return {0, first and math.max(0, tonumber(first) - now_ms) or -1}
end

-- The server does not undo what a script has done that it stops. So what it may stop comes before
-- what counts, and that is undone here: the permits are taken and counted, or neither.
leave_line(place)
local token = ours and last_token(last) or next_token(last, ARGV[3], ARGV[8])
local others_wait, left = redis.call('exists', queue) == 1, redis.call('pttl', lock)

local function take()
    for number = 0, wanted - 1 do
        local id = id_of(prefix, number)
        local ends = ours and tonumber(redis.call('zscore', permits, id)) or 0
        if ends < now_ms + lease then
            redis.call('zadd', permits, now_ms + lease, id)
        end
    end
    if is_new then
        free = make(limit - wanted)
    elseif not ours then
        free = redis.call('decrby', lock, wanted)
    end
end

local fine, why = pcall(take)
if not fine then
    for number = 0, ours and -1 or wanted - 1 do
        -- mutant: permits-that-may
        redis.call('zrem', permits, id_of(prefix, number))
    end
    return type(why) == 'table' and why or {err = why}
end
if left > 0 then
    redis.call('pexpire', permits, left)
end
-- The next in line may have been refused before this one came.
if others_wait then
    tell_free(free)
end
return {1, token}
