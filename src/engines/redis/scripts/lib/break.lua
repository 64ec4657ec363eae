-- SPDX-License-Identifier: Apache-2.0
-- include names.lua
-- include queue.lua
-- include permits.lua
-- include rw.lua
-- include mutex_pass_on.lua
-- include fair_pass_on.lua
-- Takes a lock away from one holder, or from all that hold it.
-- KEYS end with the semaphore's channel. ARGV: the mutex's channel, the queue of our clients that
-- wait for it, the read-write lock's channel, the queue of a fair mutex and its times, the token's
-- time to live, the lease in ms of the claim that is given a mutex, the holder's key or nothing.
-- Answers how many held it, and how many of them lost it; or {-1, why it cannot be}.
local key = ARGV[8]
local is = redis.call('type', lock).ok

local function break_mutex()
    local held = redis.call('hlen', lock)
    local broken = held
    if key then
        broken = redis.call('hdel', lock, key)
    else
        redis.call('del', lock)
    end
    if broken > 0 and redis.call('exists', lock) == 0 then
        pass_on_fairly(lock, ARGV[4], ARGV[5], ARGV[1], last, '', ARGV[6], ARGV[7])
    end
    if broken > 0 and redis.call('exists', lock) == 0 then
        pass_on(lock, ARGV[1], ARGV[2], last, ARGV[6], ARGV[7])
    end
    return {held, broken}
end

local function break_rw()
    local held, broken, written = 0, 0, false
    local all = redis.call('hgetall', lock)
    for i = 1, #all, 2 do
        local field, holds = all[i], tonumber(all[i + 1])
        local is_writer = string.sub(field, -6) == ':write'
        local owner = is_writer and string.sub(field, 1, -7) or field
        local is_alive = holds and (is_writer or left_of(field, holds) > 0)
        held = held + (is_alive and 1 or 0)
        if is_alive and (not key or key == owner) then
            broken = broken + 1
            redis.call('hdel', lock, field)
            for number = 1, is_writer and 0 or math.min(holds, 1000) do
                redis.call('del', life_of(field, number))
            end
        elseif is_writer then
            written = true
        end
    end
    if broken > 0 then
        if broken == held then
            redis.call('del', lock)
        else
            redis.call('hset', lock, 'mode', written and 'write' or 'read')
        end
        redis.pcall('spublish', ARGV[3], '1')
    end
    return {held, broken}
end

local function break_permits()
    local held, broken, back, seen = 0, 0, {}, {}
    reap()
    for _, id in ipairs(redis.call('zrange', permits, 0, -1)) do
        local prefix = string.sub(id, 1, 13)
        local hit = not key or (#key == 32 and string.sub(key, 1, 26) == string.sub(hex(id), 1, 26))
        held = held + (seen[prefix] and 0 or 1)
        if hit then
            broken = broken + (seen[prefix] and 0 or 1)
            redis.call('zrem', permits, id)
            back[#back + 1] = id
        end
        seen[prefix] = true
    end
    set_free(back)
    return {held, broken}
end

if is == 'none' then
    return {0, 0}
elseif is == 'string' and tonumber(redis.call('get', lock)) then
    return break_permits()
end
local kind = is == 'hash' and kind_of_hash(lock, true)
if kind == 'a read-write lock' then
    return break_rw()
elseif kind then
    return break_mutex()
end
return {-1, no_lock()}
