-- SPDX-License-Identifier: Apache-2.0
-- include names.lua
-- include queue.lua
-- include token.lua
-- include rw.lua
-- Takes a read-write lock for one owner, in the order of arrival: a reader waits for the writers
-- before it, one that may become the writer for others of its kind as well, and a writer for every
-- owner before it.
-- Attempting twice has the effect of attempting once, and never makes a lease shorter.
-- ARGV: the owner's field, the lease in ms, the token's time to live, 1 if it is going to wait, the
-- mode. Answers {1, token}, {0, milliseconds until it may be free}, or {-1, why it cannot be}.
local field, lease, waits, mode = ARGV[1], tonumber(ARGV[2]), ARGV[4] == '1', ARGV[5]
local place = mode .. ' 0 ' .. field
local writer = field .. ':write'
drop_the_dead()
local another = in_use_as_another('a read-write lock')
if another then
    leave_line(place)
    return {-1, another}
end
local held = redis.call('hget', lock, 'mode')
local ours = false
if mode == 'write' then
    ours = redis.call('hexists', lock, writer) == 1
else
    ours = redis.call('hexists', lock, field) == 1 and redis.call('exists', life_of(field, 1)) == 1
end
local upgrades = mode == 'upgrade'
local left = 0
if not ours and held and (mode == 'write' or held == 'write') then
    -- mutant: writer-does-not-look
    left = held == 'read' and living_reader() or redis.call('pttl', lock)
    if left == 0 and held == 'write' then
        -- Its last millisecond.
        left = 1
    elseif left == 0 then
        redis.call('del', lock)
    end
elseif not ours and held and upgrades then
    -- mutant: two-upgraders-at-redis
    left = living_upgrader()
end
local function must_wait()
    if left ~= 0 or mode == 'write' then
        return left ~= 0 or is_behind(place)
    end
    -- mutant: reader-does-not-care-owner
    return is_behind_some(place, 'write ') or (upgrades and is_behind_some(place, 'upgrade '))
end

if not ours and must_wait() then
    if waits then
        line_up(place)
    end
    return {0, left ~= 0 and left or -1}
end
leave_line(place)
-- mutant: reader-is-granted-with-token
local token = (ours or mode ~= 'write') and last_token(last) or next_token(last, ARGV[3], field)
if mode == 'write' then
    redis.call('hset', lock, 'mode', 'write', writer, 1)
    if not ours or redis.call('pttl', lock) < lease then
        redis.call('pexpire', lock, lease)
    end
else
    if not ours then
        redis.call('hset', lock, 'mode', 'read', field, 1)
    end
    if not ours or redis.call('pttl', life_of(field, 1)) < lease then
        redis.call('set', life_of(field, 1), upgrades and UPGRADER or 1, 'px', lease)
    end
    if redis.call('pttl', lock) < lease then
        redis.call('pexpire', lock, lease)
    end
end
return {1, token}
