-- SPDX-License-Identifier: Apache-2.0
-- Part of other scripts. Java deletes a number without the mark that we keep beside it. So a latch's mark
-- has the count that we have seen last. A latch only goes down: a larger number is another thing.

-- What a number is by its mark, or nil: nothing of ours.
local function kind_by(marked, number)
    local kind, count = string.match(marked or '', '^(a %a+) ?(%d*)$')
    -- mutant: number-above-the-count-of-a-latch
    if tonumber(count) and tonumber(number) > tonumber(count) then
        return nil
    end
    return kind
end
