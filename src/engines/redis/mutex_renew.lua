-- Renews many leases at once. One that went wrong does not stop the others.
-- KEYS: the locks. ARGV: the lease in ms of them all; for each the owner's field.
-- Answers how many there are, and then the numbers of those that are not their owner's (any more).
-- include lease_end.lua
local call, pcall, answer = redis.call, redis.pcall, {#KEYS}
for i = 1, #KEYS do
    if pcall('hexists', KEYS[i], ARGV[i + 1]) == 1 then
        call('pexpireat', KEYS[i], lease_end)
    else
        answer[#answer + 1] = i
    end
end
return answer
