-- SPDX-License-Identifier: Apache-2.0
-- Part of other scripts. The next token of a lock: above the last one, and following the clock, so
-- that it goes on rising when the last one is forgotten. The clock is read once, when it is needed:
-- it stands still while a script runs.
-- include wants_token.lua
-- include exact.lua
local clock

local function microseconds(time)
    -- mutant: tokens-begin-again-at-clock
    return time[1] * 1000000 + time[2]
end

-- When the quarter of a token's life began that a number falls into.
local function quarter_of(number, token_ms)
    return number - number % (token_ms * 250)
end

-- The next token of a lock whose last one is known, where there is nothing to do but count on: it is
-- of this quarter, and behind the clock. Else nothing. Redis would make a text of the number as of one
-- with a fraction, which costs it as much as half a call.
local function counted_on(key, last, now, quarter)
    last = tonumber(last)
    -- mutant: of-those-that-ask-together-token
    return last and last >= quarter and last < now and
        redis.call('incrby', key, string.format('%d', now - last))
end

-- A number or its digits, as exact.lua says; or false: there is none.
local function last_token(key)
    local last = redis.call('get', key)
    return last and exact(last)
end

-- A foreign value, ahead of the clock for good.
local function count_on_large(key, token_ms)
    if redis.call('pttl', key) >= 0 then
        redis.call('pexpire', key, token_ms)
    end
    redis.call('incrby', key, 1)
    return redis.call('get', key)
end

-- For a claim that wants none no key is made, and the number only tells one grant from the next. A
-- key that is there belongs to another client, whose tokens go on rising.
local function next_token(key, token_ms, field)
    clock = clock or redis.call('time')
    local number = microseconds(clock)
    local last = last_token(key)
    if not last then
        -- mutant: fence-off-keeps-token-all-same
        if wants_token(field) then
            redis.call('set', key, string.format('%.0f', number), 'px', token_ms)
        end
        return number
    elseif type(last) == 'string' then
        return count_on_large(key, token_ms)
    end
    local behind = last >= number
    -- Its life begins anew four times a life, and at each grant as long as the clock is behind. A
    -- counter without an end is a Java client's, and must not begin again at 1 one day.
    if (behind or last < quarter_of(number, token_ms)) and
        redis.call('pttl', key) >= 0 then
        redis.call('pexpire', key, token_ms)
    end
    return redis.call('incrby', key, behind and 1 or number - last)
end
