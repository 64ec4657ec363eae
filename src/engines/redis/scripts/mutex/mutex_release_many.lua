-- SPDX-License-Identifier: Apache-2.0
-- Gives many mutexes back, each as if it were alone.
-- KEYS: the locks, their channels, the queues of our clients that wait. ARGV: the
-- tokens' time to live, the lease in ms of the claim that is given one; for each the owner's field.
-- Answers for each what it is answered alone; or nothing, where that is an error: it has to ask
-- alone.
local call, KEYS, ARGV = redis.call, KEYS, ARGV
local count = #KEYS / 3
local answers, i = {}, 0
local function give_unwanted()
    while i < count do
        i = i + 1
        answers[i] = call('hdel', KEYS[i], ARGV[2 + i])
        if answers[i] == 1 then
            -- mutant: none-is-told-of-what-many-give
            redis.pcall('spublish', KEYS[count + i], '0')
        end
    end
end

-- One look at all queues is cheaper than as many looks, and mostly no claim of ours waits for any.
-- mutant: where-many-give-back-together
local nobody_waits = redis.pcall('exists', unpack(KEYS, 2 * count + 1)) == 0
-- mutant: of-those-that-give-back-together
if nobody_waits and not pcall(give_unwanted) then
    answers[i] = false
end
-- What is defined costs time each time, so what is hardly ever needed comes behind.
if i == count then
    return answers
end
-- So are the tokens' names, which end as the channels' do.
-- include mutex_give.lua
local function give_each()
    while i < count do
        i = i + 1
        local channel = KEYS[count + i]
        -- mutant: where-many-give-back-owner
        local token = 'redisson_lock_token' .. string.sub(channel, 1 + #'redisson_lock__channel')
        local answer = give(KEYS[i], channel, token, KEYS[2 * count + i], ARGV[1], ARGV[2], ARGV[2 + i])
        answers[i] = type(answer) == 'number' and answer
    end
end

-- Those behind what fails go on.
while i < count do
    -- mutant: of-those-that-give-back
    if not pcall(give_each) then
        answers[i] = false
    end
end
return answers
