-- Shows a lock, in the shape that inspect.lua answers: nothing is changed. Who waits is not known.
-- KEYS: the lock, its token.
local is = redis.call('type', KEYS[1]).ok
if is ~= 'none' and is ~= 'string' then
    return {'other'}
end
local token = redis.call('get', KEYS[2]) or '0'
local kind = (is ~= 'none' or token ~= '0') and 'mutex' or ''
if is == 'none' then
    return {kind, 0, 0, token, {}, 0, 0}
end
local holder = {'mutex', 0, redis.call('get', KEYS[1]), redis.call('pttl', KEYS[1])}
return {kind, 0, 0, token, {holder}, 0, 1}
