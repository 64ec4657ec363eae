-- Shows a lock: nothing is changed.
-- KEYS: the lock, its token, the mutex's channel.
-- Answers {kind, total, value, the last token, holders, waiters, 1 if the name is in use or 0}, or
-- {'other'}: it is no lock. A holder is {mode, permits, its key, milliseconds left}; waiters are the
-- same, in order, or just their number.
local lock = KEYS[1]
local is = redis.call('type', lock).ok
if is ~= 'none' and (is ~= 'hash' or redis.call('hexists', lock, 'mode') == 1) then
    return {'other'}
end
local token = redis.call('get', KEYS[2]) or '0'
local waiters = redis.call('pubsub', 'numsub', KEYS[3])[2]
local holders = {}
local left = redis.call('pttl', lock)
for i, field in ipairs(redis.call('hkeys', lock)) do
    holders[i] = {'mutex', 0, field, left}
end
local kind = (is ~= 'none' or token ~= '0') and 'mutex' or ''
local in_use = (#holders > 0 or waiters > 0) and 1 or 0
return {kind, 0, 0, token, holders, waiters, in_use}
