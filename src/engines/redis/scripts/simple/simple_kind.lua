-- SPDX-License-Identifier: Apache-2.0
-- Part of other scripts. Any text may be a lock, but a number that is marked, or has permits beside
-- it, is something else: what, or nothing. The keys of those are not announced: a user of plain
-- locks alone may not be allowed to use them.
-- include mark.lua
local function kind_of_number(text, lock)
    if not tonumber(text) then
        return nil
    end
    local braced = string.find(lock, '{', 1, true)
    local name = braced and lock or '{' .. lock .. '}'
    local permits, mark = name .. ':timeout', 'holdfast_kind:' .. (braced and ':' or '') .. name
    -- A user that may not look there has no such things.
    local has_permits = redis.pcall('exists', permits) == 1
    local marked = redis.pcall('get', mark)
    local kind = type(marked) == 'string' and kind_by(marked, text)
    -- mutant: break-of-plain-lock-deletes
    return has_permits and 'a semaphore' or kind or nil
end
