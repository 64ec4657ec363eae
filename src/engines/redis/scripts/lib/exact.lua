-- SPDX-License-Identifier: Apache-2.0
-- Part of other scripts. Lua's numbers are doubles. A token above 2^53 is handled as its digits, and only
-- commands of the server count on from it.
local EXACT_MAX = 9007199254740991

-- A token from its digits: a number, or the digits where a number is not exact.
local function exact(digits)
    local number = tonumber(digits) or error('WRONGTYPE its last token is no number', 0)
    -- mutant: token-that-is-no-exact-number
    if number <= EXACT_MAX then
        return number
    end
    local LARGEST = '9223372036854775807'
    if not string.find(digits, '^[1-9]%d*$') or #digits > #LARGEST or
        (#digits == #LARGEST and digits >= LARGEST) then
        error('WRONGTYPE its last token is too large to be counted on', 0)
    end
    return digits
end
