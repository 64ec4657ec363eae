-- SPDX-License-Identifier: Apache-2.0
-- Part of other scripts, those that show a lock among them: nothing is changed here.
-- include ours.lua
-- A read hold lives as long as its own key. Java's may have several, numbered from 1; ours have one.
local base = string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'

local function life_of(reader, number)
    return base .. ':' .. reader .. ':rwlock_timeout:' .. number
end

-- A reader that may become the writer says so in the value of that key, which Java never reads.
local UPGRADER = 'upgrade'

local function is_upgrader(reader)
    return is_ours(reader) and redis.call('get', life_of(reader, 1)) == UPGRADER
end

-- The longest life of a reader's holds in ms; 0: it is dead.
local function left_of(reader, holds)
    local most = 0
    for number = math.min(holds, 1000), 1, -1 do
        most = math.max(most, redis.call('pttl', life_of(reader, number)))
    end
    return most
end
