-- Renews many leases at once. One that went wrong does not stop the others.
-- KEYS: the locks. ARGV: the lease in ms of them all; for each the owner's text.
-- Answers how many there are, and then the numbers of those that are not their owner's (any more).
-- include lease_end.lua
local call, answer = redis.call, {#KEYS}
-- All are read at once, which costs less than one by one; what is no text reads as nothing.
local holders = call('mget', unpack(KEYS))
for i = 1, #KEYS do
    if holders[i] == ARGV[i + 1] then
        call('pexpireat', KEYS[i], lease_end)
    else
        answer[#answer + 1] = i
    end
end
return answer
