-- SPDX-License-Identifier: Apache-2.0
-- Part of other scripts.
-- include holder.lua

-- What kind of lock a hash is; or nothing, if it is none. What is going to be deleted, or shown as
-- held, is looked at `whole`: field by field.
local function kind_of_hash(lock, whole)
    local mode = redis.call('hget', lock, 'mode')
    local is_rw = mode == 'read' or mode == 'write'
    local kind = is_rw and 'a read-write lock' or 'a mutex'
    if is_rw and not whole then
        return kind
    end
    for _, field in ipairs(redis.call('hkeys', lock)) do
        -- mutant: break-deletes-what-application
        if not string.find(field, HOLDER) and not (is_rw and field == 'mode') then
            return nil
        end
    end
    return kind
end
