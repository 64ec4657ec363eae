-- Gives many mutexes back, each as if it were alone.
-- KEYS: for each those of mutex_release.lua. ARGV: the tokens' time to live, the lease in ms of who
-- is given one; for each the owner's field.
-- Answers for each what it is answered alone; or nothing, where that is an error: it has to ask alone.
-- include mutex_give.lua
local answers = {}
for i = 1, #KEYS / 4 do
    local fine, answer = pcall(give, KEYS[4 * i - 3], KEYS[4 * i - 2], KEYS[4 * i - 1], KEYS[4 * i],
                               ARGV[1], ARGV[2], ARGV[2 + i])
    answers[i] = fine and type(answer) == 'number' and answer
end
return answers
