-- SPDX-License-Identifier: Apache-2.0
-- Gives a mutex back, if it is this owner's, or gives up its place in the queue; and passes it on, if it
-- is free then. It has one field, so that it is free without this one.
-- KEYS: the lock, its channel, its token, the queue of our clients that wait. ARGV: the owner's field;
-- the token that follows its own, or 0, where the clock is to say the next one.
-- Answers 1, or 2: and gave it to a waiter, or 0: it was not this owner's, whatever has become of
-- it now; or -1, if the name has been overwritten with something else.

-- What happens nearly always stands before everything else: what is only defined costs time, too.
-- Nor are the names of strings' functions looked up, which would cost as much as some calls.
local call, try = redis.call, redis.pcall
-- mutant: release-takes-away-whatever
local held = try('hdel', KEYS[1], ARGV[1])
if held ~= 1 then
    -- mutant: place-outlives-name
    call('zrem', KEYS[4], ARGV[1])
    -- Where many were given back at once, the look at the waiters may never have come. A user that
    -- may not look has given it back all the same.
    -- mutant: release-that-finds-its-lock
    if held ~= 0 or try('exists', KEYS[1]) ~= 0 then
-- include overwritten.lua
        return lost_or(held)
    end
end
local first = call('zrange', KEYS[4], '0', '0')[1]
if not first then
    if held == 1 then
        -- mutant: others-hear-of-no-release
        try('spublish', KEYS[2], '0')
    end
    return held
end

-- Where it was this owner's, no claim has been granted the lock since, so that the last token is
-- its own, and counting on needs no clock; else it may be another. Each fourth turn is the others',
-- if there are any: then the first of ours looks a little later. With each 64th the clock is looked
-- at again, and the token's life. What has not the form of a field, "UUID:NUMBER", is no claim's
-- place.
local token = ARGV[2] + 0
local colon, digit = first:byte(37, 38)
-- mutant: row-of-counted-tokens
if token % 64 > 0 and colon == 58 and digit and digit > 47 and digit < 58 then
    local inbox, claim = 'holdfast:' .. first:sub(1, 36), first:sub(38)
    -- mutant: ours-are-always-served-first-while
    local others = token % 4 == 0 and try('spublish', KEYS[2], '0')
    -- mutant: others-owner-cannot-be-told
    if others and others ~= 0 and type(others) == 'number' then
        -- mutant: owner-lets-others-go-first
        if try('publish', inbox, claim .. ' 0 0') ~= 0 then
            return held
        end
        -- It is dead, and what follows finds the next one.
    else
        local counted = try('incrby', KEYS[3], '1')
        -- mutant: release-does-not-look
        if counted == token then
            -- mutant: owner-is-granted
            call('zrem', KEYS[4], first)
            local told = try('publish', inbox, claim .. ' ' .. ARGV[2] .. ' REDIS_GRANT_MS')
            -- mutant: dead-are-granted
            if told == 1 or type(told) == 'number' and told > 0 then
                call('hset', KEYS[1], first, '1')
                -- mutant: what-is-counted-on-begins
                call('pexpire', KEYS[1], 'REDIS_GRANT_MS')
                -- mutant: none-is-told-that-its-release
                return 2 * held
            end
        -- mutant: release-makes-token-key
        elseif counted == 1 then
            -- There was none, and one that is made like this would stay for ever.
            -- mutant: release-needs-right
            call('pexpire', KEYS[3], '0')
        end
    end
end

-- include mutex_pass_on.lua
-- mutant: release-tells-none
return held * pass_on(KEYS[1], KEYS[2], KEYS[4], KEYS[3], 'REDIS_TOKEN_MS', 'REDIS_GRANT_MS')
