-- Shows a lock: nothing is changed.
-- KEYS: the lock, its token, the mutex's channel, the queue of our clients that wait for it.
-- Answers {kind, total, value, the last token, holders, waiters, 1 if the name is in use or 0}, or
-- {'other'}: it is no lock. A holder is {mode, permits, its key, milliseconds left}; waiters are the
-- same, in order, or just their number.
-- include grant.lua
local lock = KEYS[1]
local is = redis.call('type', lock).ok
if is ~= 'none' and (is ~= 'hash' or redis.call('hexists', lock, 'mode') == 1) then
    return {'other'}
end
local token = redis.call('get', KEYS[2]) or '0'
local holders = {}
local left = redis.call('pttl', lock)
for i, field in ipairs(redis.call('hkeys', lock)) do
    holders[i] = {'mutex', 0, field, left}
end
-- Ours stand in the queue. They listen, too, as all the others do, if somebody else's client has it.
local waiters = {}
for i, field in ipairs(redis.call('zrange', KEYS[4], 0, 9999)) do
    waiters[i] = {'mutex', 0, field, 0}
end
local listeners = redis.call('pubsub', 'numsub', KEYS[3])[2]
if holders[1] and not is_ours(holders[1][3]) then
    listeners = listeners - #waiters
end
for i = 1, math.min(listeners, 1000) do
    waiters[#waiters + 1] = {'mutex', 0, '', 0}
end
local kind = (is ~= 'none' or token ~= '0') and 'mutex' or ''
local in_use = (#holders > 0 or #waiters > 0) and 1 or 0
return {kind, 0, 0, token, holders, waiters, in_use}
