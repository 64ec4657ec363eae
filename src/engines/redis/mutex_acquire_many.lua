-- Takes many mutexes, each as if it were alone.
-- KEYS: for each those of mutex_acquire.lua. ARGV: the tokens' time to live, the queues'; for each the
-- owner's field, the lease in ms, whether it waits.
-- Answers for each what it is answered alone; or nothing, where that is an error: it has to ask alone.
-- include mutex_take.lua
local answers = {}
for i = 3, #KEYS, 3 do
    local fine, answer = pcall(take, KEYS[i - 2], KEYS[i - 1], KEYS[i], ARGV[1], ARGV[2], ARGV[i],
                               ARGV[i + 1], ARGV[i + 2])
    answers[i / 3] = fine and answer
end
return answers
