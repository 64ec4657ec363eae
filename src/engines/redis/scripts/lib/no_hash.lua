-- SPDX-License-Identifier: Apache-2.0
-- Part of other scripts. Why there can be no mutex, where what is for hashes alone has failed: a
-- sentence's end; or nothing, if that had another reason. A text may be a lock in another format.
local function why_no_hash(lock)
    local is = redis.pcall('type', lock).ok
    if is and is ~= 'none' and is ~= 'hash' and is ~= 'string' then
        return 'is in use as something that is no lock (of the type ' .. is .. '), not as a mutex'
    end
end
