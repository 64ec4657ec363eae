-- SPDX-License-Identifier: Apache-2.0
-- Part of other scripts.
-- include wants_token.lua
-- include exact.lua
-- include simple_kind.lua

-- Both as digits.
local function larger(one, other)
    if #one ~= #other then
        return #one > #other and one or other
    end
    return one > other and one or other
end

-- The digits of the token that a grant has. What is held already keeps its own.
local function next_number(last, token, holder, least)
    local number = exact(token or '0')
    if type(number) == 'string' then
        if not holder then
            redis.call('incrby', last, 1)
            token = redis.call('get', last)
        end
        return larger(token, least or '0')
    end
    number = math.max(number, 0)
    if not (holder and token) then
        number = number + 1
        -- Clocks differ, so several servers go on by their tokens alone, and those are soon the same.
        if not (token and least) then
            local now = redis.call('time')
            -- mutant: token-of-plain-lock-begins
            number = math.max(number, now[1] * 1000000 + now[2])
        end
    end
    return larger(string.format('%.0f', number), least or '0')
end

-- Takes a lock of the plain kind, a text under a name that expires (SET NX PX), for one owner.
-- Attempting twice has the effect of attempting once, and never makes the lease shorter. `least` is for
-- one server of several: the least that the token may be.
-- Answers {1, token}, {0, milliseconds until it may be free}, or {-1, why it cannot be}.
local function take(lock, last, owner, lease_ms, token_ms, least)
    local is = redis.call('type', lock).ok
    if is ~= 'none' and is ~= 'string' then
        return {-1, 'is there, but is no plain lock, which format=simple is for'}
    end
    local holder = redis.call('get', lock)
    -- mutant: plain-lock-is-taken-from-owner
    if holder and holder ~= owner then
        local kind = kind_of_number(holder, lock)
        if kind then
            return {-1, 'is in use as ' .. kind .. ', not as a mutex'}
        end
        return {0, redis.call('pttl', lock)}
    end
    local token = redis.call('get', last)
    local number = next_number(last, token, holder, least)
    if number ~= token and (token or wants_token(owner)) then
        redis.call('set', last, number, 'px', token_ms)
    end
    -- A server of several is asked again after the lease was made longer.
    -- mutant: raising-server-token-makes
    if not holder or redis.call('pttl', lock) < tonumber(lease_ms) then
        redis.call('set', lock, owner, 'px', lease_ms)
    end
    return {1, number}
end
