-- SPDX-License-Identifier: Apache-2.0
-- Part of the scripts that renew many leases. `renew_the_rest` goes on behind the lease with the number
-- `at`, which it keeps up to date, and calls `lost` for those that are not their owner's (any more).
-- One that goes wrong does not stop the others. What is of another type is not the owner's either;
-- of what the server refuses to look at or to change for us nothing is known, and it says why.
local at, answer, words = 0, {}, nil

local function lost(number)
    answer[#answer + 1] = number
end

local function renew_each(count, renew_the_rest)
    answer[1] = count
    while at < count do
        local fine, why = pcall(renew_the_rest)
        local text = not fine and (type(why) == 'table' and why.err or tostring(why))
        if not text then
            break
        elseif string.find(text, 'READONLY', 1, true) then
            return {err = text}
        elseif string.find(text, 'WRONGTYPE', 1, true) then
            lost(at)
        else
            -- mutant: what-server-refuses-to-renew
            answer[#answer + 1] = -at
            words = words or text
        end
    end
    answer[#answer + 1] = words
    return answer
end
