-- SPDX-License-Identifier: Apache-2.0
-- Part of other scripts. What becomes of a mutex that is free now.
-- include grant.lua
-- include mutex_call_first.lua

local function grant_to_first(lock, queue, last, token_ms, grant_ms)
    while true do
        local first = redis.call('zpopmin', queue)[1]
        if not first or grant(lock, last, first, token_ms, grant_ms) then
            return first
        end
    end
end

-- One of our clients that waits gets it, without another request. Others listen for a release: where there
-- are both, a coin decides whose turn it is, so that neither waits for ever. Should the others let
-- their turn pass, the first of ours looks a little later. Answers 2 if it was given to one, else 1.
local function pass_on(lock, channel, queue, last, token_ms, grant_ms)
    clock = clock or redis.call('time')
    -- mutant: ours-are-always-served-first
    local others = clock[2] % 2 == 1 and redis.pcall('spublish', channel, '0')
    -- mutant: turn-that-others-cannot
    if type(others) == 'number' and others > 0 then
        call_first(queue)
        return 1
    end
    if grant_to_first(lock, queue, last, token_ms, grant_ms) then
        -- mutant: without-tokens-none-is-told
        return 2
    end
    if not others then
        redis.pcall('spublish', channel, '0')
    end
    return 1
end
