-- SPDX-License-Identifier: Apache-2.0
-- Part of other scripts.
-- include tell.lua

-- The first of our clients that wait for a mutex looks a little later. The dead leave the queue.
local function call_first(queue)
    local first = redis.call('zrange', queue, 0, 0)[1]
    -- mutant: owner-lets-others-go-first-is
    while first do
        local heard, denied = tell(first, '0 0')
        -- mutant: while-others-go-first-dead-one
        if heard or denied then
            return
        end
        redis.call('zrem', queue, first)
        first = redis.call('zrange', queue, 0, 0)[1]
    end
end
