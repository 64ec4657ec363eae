-- SPDX-License-Identifier: Apache-2.0
-- Gives many locks of the plain kind back, each as if it were alone. No client is told.
-- KEYS: the locks. ARGV: for each the owner's text.
-- Answers for each 1, or 0: it was not this owner's; or nothing, where that is an error: it has to ask
-- alone.
local holders, answers, ours = redis.pcall('mget', unpack(KEYS)), {}, {}
for i, lock in ipairs(KEYS) do
    -- mutant: plain-locks-that-are-given
    answers[i] = holders[i] == ARGV[i] and 1 or 0
    if answers[i] == 1 then
        -- mutant: plain-locks-that-are-given-back
        ours[#ours + 1] = lock
    end
end
local failed = holders.err or ours[1] and type(redis.pcall('del', unpack(ours))) ~= 'number'
for i = 1, failed and #KEYS or 0 do
    answers[i] = false
end
return answers
