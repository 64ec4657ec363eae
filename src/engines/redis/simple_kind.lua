-- Part of other scripts. Any text may be somebody's lock, but a number that is marked, or has permits
-- beside it, is something else: what, or nothing. `permits` and `mark` are its keys.
local function kind_of_number(text, mark, permits)
    if not tonumber(text) then
        return nil
    end
    -- A user who may not look there has no such things.
    local has_permits = redis.pcall('exists', permits) == 1
    local kind = redis.pcall('get', mark)
    return has_permits and 'a semaphore' or type(kind) == 'string' and kind
end
