-- SPDX-License-Identifier: Apache-2.0
-- Takes many mutexes, each as if it were alone. No two of them have one token.
-- KEYS: the locks, their tokens, and, of those that wait, the queues of our clients that do. ARGV: the
-- lease in ms of them all, the tokens' time to live, the queues', whether they wait; for each the
-- owner's field.
-- Answers for each its token, or what mutex_take.lua says; or nothing, where that is an error: it
-- has to ask alone.
-- include token.lua
-- include lease_end.lua
local call, KEYS, ARGV = redis.call, KEYS, ARGV
local lease_ms, token_ms, queue_ms, waits = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local count = #KEYS / (waits == '0' and 2 or 3)
clock = time
local now = microseconds(time)
local quarter = quarter_of(now, token_ms)

-- One look at them all is cheaper than as many looks, and nearly always they are all free; and
-- where no claim wants tokens there are none, so that there is nothing to count on from.
-- mutant: owner-asks-together-for-mutexes-has
local no_tokens = waits ~= '2' and not wants_token(ARGV[5]) and
    -- mutant: owner-asks-together-for
    redis.pcall('exists', unpack(KEYS, 1, 2 * count)) == 0
-- mutant: owner-asks-together-with
local all_free = no_tokens or waits ~= '2' and redis.pcall('exists', unpack(KEYS, 1, count)) == 0
local lasts = all_free and not no_tokens and
    redis.pcall('mget', unpack(KEYS, count + 1, 2 * count)) or {}

local answers, i = {}, 0
local function take_free()
    while i < count do
        i = i + 1
        local lock, key, field = KEYS[i], KEYS[count + i], ARGV[4 + i]
        -- mutant: owner-asks-together-for-mutexes
        answers[i] = no_tokens and now or counted_on(key, lasts[i], now, quarter) or
            next_token(key, token_ms, field)
        call('hset', lock, field, '1')
        call('pexpireat', lock, lease_end)
    end
end

-- mutant: error-of-one-is-all-where-all
if all_free and not pcall(take_free) then
    answers[i] = false
end
-- What is defined costs time each time, so what is hardly ever needed comes behind.
if i == count then
    return answers
end
-- include mutex_take.lua
local function take_each()
    while i < count do
        i = i + 1
        answers[i] = take(KEYS[i], KEYS[count + i], KEYS[2 * count + i], token_ms, queue_ms,
                          ARGV[4 + i], lease_ms, waits)
    end
end

-- Those behind what fails go on.
-- mutant: of-those-that-ask-together
while i < count do
    -- mutant: error-of-one-is-all
    if not pcall(take_each) then
        answers[i] = false
    end
end
return answers
