-- Shows a mutex: nothing is changed.
-- KEYS: the lock, its token, its channel.
-- Answers {the type of the lock's key, its holders' fields, milliseconds left, the last token, how
-- many clients listen for its release}, or {'other'}.
local kind = redis.call('type', KEYS[1]).ok
if kind ~= 'none' and (kind ~= 'hash' or redis.call('hexists', KEYS[1], 'mode') == 1) then
    return {'other'}
end
local listeners = redis.call('pubsub', 'numsub', KEYS[3])
return {kind, redis.call('hkeys', KEYS[1]), redis.call('pttl', KEYS[1]),
        redis.call('get', KEYS[2]) or '0', listeners[2]}
