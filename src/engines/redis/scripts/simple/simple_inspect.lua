-- SPDX-License-Identifier: Apache-2.0
-- include simple_kind.lua
-- Shows a lock, in the shape that inspect.lua answers: nothing is changed. Waiters are not known.
-- KEYS: the lock, its token.
local is = redis.call('type', KEYS[1]).ok
local text = is == 'string' and redis.call('get', KEYS[1])
if is ~= 'none' and not text then
    return {'is there, but is no plain lock, which format=simple is for'}
end
local other = text and kind_of_number(text, KEYS[1])
if other then
    return {'is in use as ' .. other .. ', not as a mutex'}
end
local token = redis.call('get', KEYS[2]) or '0'
local kind = (is ~= 'none' or token ~= '0') and 'mutex' or ''
if is == 'none' then
    return {kind, 0, 0, token, {}, 0, 0, 0}
end
local holder = {'mutex', 0, text, redis.call('pttl', KEYS[1])}
return {kind, 0, 0, token, {holder}, 0, 1, 0}
