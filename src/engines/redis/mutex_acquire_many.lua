-- Takes many mutexes, each as if it were alone.
-- KEYS: the locks, their tokens, the queues of our clients that wait. ARGV: the lease in ms of them
-- all, the tokens' time to live, the queues', whether they wait; for each the owner's field.
-- Answers for each its token, or what mutex_take.lua says; or nothing, where that is an error: it
-- has to ask alone.
-- include mutex_take.lua
-- include lease_end.lua
local call, pcall_each, count = redis.call, redis.pcall, #KEYS / 3
local lease_ms, token_ms, queue_ms, waits = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
clock = time
local now = microseconds(time)
local quarter = quarter_of(now, token_ms)

-- One look at them all is cheaper than as many looks, and nearly always they are all free.
local all_free = waits ~= '2' and pcall_each('exists', unpack(KEYS, 1, count)) == 0
local lasts = all_free and pcall_each('mget', unpack(KEYS, count + 1, 2 * count)) or {}

-- Its token is what next_token says, for the same reasons.
local function take_free(i)
    local lock, key, field = KEYS[i], KEYS[count + i], ARGV[4 + i]
    local last = tonumber(lasts[i])
    local follows = last and last >= quarter and last < now
    local token = follows and call('incrby', key, now - last) or next_token(key, token_ms, field)
    call('hset', lock, field, '1')
    call('pexpireat', lock, lease_end)
    return token
end

-- Two names may share a token, as `a` and `{a}` do.
local answers, taken, i = {}, {}, 0
local function take_each()
    while i < count do
        i = i + 1
        local key = KEYS[count + i]
        if all_free and not taken[key] then
            taken[key] = true
            answers[i] = take_free(i)
        else
            answers[i] = take(KEYS[i], key, KEYS[2 * count + i], token_ms, queue_ms, ARGV[4 + i],
                              lease_ms, waits)
        end
    end
end

-- Those behind what fails go on.
while i < count do
    if not pcall(take_each) then
        answers[i] = false
    end
end
return answers
