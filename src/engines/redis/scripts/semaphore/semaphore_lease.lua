-- SPDX-License-Identifier: Apache-2.0
-- One lease of permits, renewed; or, if it is to be `longer`, given at least that length.
local time = redis.call('time')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

-- What has another type than a number is an error.
local function is_overwritten(lock)
    local free = redis.call('get', lock)
    -- mutant: permits-of-overwritten
    return free and not tonumber(free)
end

local function renew(lock, prefix, wanted, lease, longer)
    if is_overwritten(lock) then
        return 0
    end
    local base = string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'
    local permits = base .. ':timeout'
    for number = 0, wanted - 1 do
        local id = prefix .. string.char(math.floor(number / 65536) % 256,
                                         math.floor(number / 256) % 256, number % 256)
        local ends = tonumber(redis.call('zscore', permits, id) or 0)
        if ends <= now_ms then
            return 0
        end
        if not longer or ends < now_ms + lease then
            redis.call('zadd', permits, now_ms + lease, id)
        end
    end
    return 1
end
