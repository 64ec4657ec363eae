-- SPDX-License-Identifier: Apache-2.0
-- Part of other scripts.

-- Tells the client of one of our claims. Answers whether it can still hear it, and whether that may not
-- be tried.
local function tell(field, what)
    local client, number = string.match(field, '^(.*):(%d+)$')
    local told = client and redis.pcall('publish', 'holdfast:' .. client, number .. ' ' .. what)
    -- mutant: dead-are-granted-what-they
    return type(told) == 'number' and told > 0, type(told) == 'table'
end
