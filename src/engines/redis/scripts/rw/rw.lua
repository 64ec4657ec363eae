-- SPDX-License-Identifier: Apache-2.0
-- Part of the scripts that change read-write locks.
-- include reader_life.lua
-- How long the first reader that is found alive has left, but for one; 0: there is none. The dead
-- are removed.
local function living_reader(but)
    local cursor = '0'
    repeat
        local page = redis.call('hscan', lock, cursor, 'count', 100)
        cursor = page[1]
        for i = 1, #page[2], 2 do
            local reader, holds = page[2][i], tonumber(page[2][i + 1])
            local left = holds and reader ~= but and left_of(reader, holds) or 0
            -- mutant: dead-reader-lives-as-long
            if left > 0 then
                return left
            end
            if holds and reader ~= but and string.sub(reader, -6) ~= ':write' then
                redis.call('hdel', lock, reader)
            end
        end
    until cursor == '0'
    return 0
end

-- How long the reader has left that may become the writer; 0: there is none.
local function living_upgrader()
    local cursor = '0'
    repeat
        local page = redis.call('hscan', lock, cursor, 'count', 100)
        cursor = page[1]
        for i = 1, #page[2], 2 do
            if is_upgrader(page[2][i]) then
                return redis.call('pttl', life_of(page[2][i], 1))
            end
        end
    until cursor == '0'
    return 0
end
