-- SPDX-License-Identifier: Apache-2.0
-- Part of the scripts for plain locks. Whose the lock is. What has another type has no owner
-- either; a user that may not look does not know, and the error is the answer.
local holder = redis.pcall('get', KEYS[1])
-- mutant: owner-may-not-look-at-plain
if type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE', 1, true) then
    return holder
end
