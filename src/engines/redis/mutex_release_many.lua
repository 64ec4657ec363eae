-- Gives many mutexes back, each as if it were alone.
-- KEYS: the locks, their channels, their tokens, the queues of our clients that wait. ARGV: the
-- tokens' time to live, the lease in ms of who is given one; for each the owner's field.
-- Answers for each what it is answered alone; or nothing, where that is an error: it has to ask alone.
local call, count = redis.call, #KEYS / 4
local answers, i = {}, 0
local function give_unwanted()
    while i < count do
        i = i + 1
        answers[i] = call('hdel', KEYS[i], ARGV[2 + i])
        if answers[i] == 1 then
            call('publish', KEYS[count + i], '0')
        end
    end
end

-- One look at all queues is cheaper than as many looks, and mostly nobody of ours waits for any.
local nobody_waits = redis.pcall('exists', unpack(KEYS, 3 * count + 1)) == 0
if nobody_waits and not pcall(give_unwanted) then
    answers[i] = false
end
-- What is defined costs time each time, so what is hardly ever needed comes behind.
if i == count then
    return answers
end
-- include mutex_give.lua
local function give_each()
    while i < count do
        i = i + 1
        local answer = give(KEYS[i], KEYS[count + i], KEYS[2 * count + i], KEYS[3 * count + i],
                            ARGV[1], ARGV[2], ARGV[2 + i])
        answers[i] = type(answer) == 'number' and answer
    end
end

-- Those behind what fails go on.
while i < count do
    if not pcall(give_each) then
        answers[i] = false
    end
end
return answers
