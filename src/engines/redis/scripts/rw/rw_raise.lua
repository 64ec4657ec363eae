-- SPDX-License-Identifier: Apache-2.0
-- include names.lua
-- include queue.lua
-- include token.lua
-- include rw.lua
-- Makes a reader that may become the writer the writer, once no other reader lives. It goes before
-- all that are in line, so no reader of ours comes in before it. Its lease goes on as it is.
-- Attempting twice has the effect of attempting once.
-- ARGV: the owner's field, the token's time to live, 1 if it is going to wait, the number of this raise.
-- Answers {1, token}, {0, milliseconds until it may be free}, or {-4, why}: it is not held any more.
local field, number = ARGV[1], ARGV[4]
local place, writer, life = 'write 0 ' .. field, field .. ':write', life_of(field, 1)
local is_hash = redis.call('type', lock).ok == 'hash'
local raised = is_hash and redis.call('hexists', lock, writer) == 1
drop_the_dead()
if not raised and not (is_hash and redis.call('hexists', lock, field) == 1 and is_upgrader(field)) then
    leave_line(place)
    return {-4, 'is not held any more'}
end
-- mutant: raise-does-not-wait-for-readers
local left = raised and 0 or living_reader(field)
if left > 0 then
    if ARGV[3] == '1' then
        -- mutant: raise-stands-behind-others
        line_up(place, FRONT)
    end
    return {0, left}
end
leave_line(place)
-- mutant: raise-keeps-its-token
local token = raised and last_token(last) or next_token(last, ARGV[2], field)
if not raised then
    -- A user that may not take away must not add.
    redis.call('hdel', lock, writer)
    redis.call('pexpire', lock, math.max(1, redis.call('pttl', life)))
end
-- A request to go down that comes late knows by the number that it was for an earlier raise.
redis.call('hset', lock, 'mode', 'write', writer, number)
redis.call('hdel', lock, field)
redis.call('del', life)
return {1, token}
