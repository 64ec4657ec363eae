-- SPDX-License-Identifier: Apache-2.0
-- Takes many locks of the plain kind, each as if it were alone. No two of them have one token.
-- KEYS: the locks, their tokens. ARGV: the lease in ms of them all, the tokens' time to live; for each
-- the owner's text.
-- Answers for each its token, or what simple_take.lua says; or nothing, where that is an error: it has
-- to ask alone.
-- include token.lua
-- include simple_take.lua
local call, KEYS, ARGV = redis.call, KEYS, ARGV
local count = #KEYS / 2
local lease_ms, token_ms = ARGV[1], ARGV[2]
local now = microseconds(call('time'))
local quarter = quarter_of(now, token_ms)

-- One look at them all is cheaper than as many looks, and nearly always they are all free; and
-- where no claim wants tokens there are none, so that there is nothing to count on from.
-- mutant: owner-asks-together-for-plain
local no_tokens = not wants_token(ARGV[3]) and redis.pcall('exists', unpack(KEYS)) == 0
-- mutant: plain-locks-that-are-asked
local all_free = no_tokens or redis.pcall('exists', unpack(KEYS, 1, count)) == 0
local lasts = all_free and not no_tokens and redis.pcall('mget', unpack(KEYS, count + 1)) or {}

local answers, i = {}, 0
local function take_each()
    while i < count do
        i = i + 1
        local lock, key, owner = KEYS[i], KEYS[count + i], ARGV[2 + i]
        -- mutant: owner-asks-together-for-plain-locks
        local token = no_tokens and now or counted_on(key, lasts[i], now, quarter)
        if token then
            call('set', lock, owner, 'px', lease_ms)
        end
        answers[i] = token or take(lock, key, owner, lease_ms, token_ms)
    end
end

-- Those behind what fails go on.
while i < count do
    if not pcall(take_each) then
        answers[i] = false
    end
end
return answers
