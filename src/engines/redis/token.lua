-- Part of other scripts. The next token of a lock: above the last one, and following the clock, so
-- that it goes on rising when the last one is forgotten.
local function next_token(key, token_ms)
    local last = redis.call('get', key)
    local now = redis.call('time')
    local number = now[1] * 1000000 + now[2]
    if last and tonumber(last) >= number then
        number = last + 1
    end
    local token = string.format('%.0f', number)
    -- A counter without an end is a Java client's, and must not begin again at 1 one day.
    if last and redis.call('pttl', key) == -1 then
        redis.call('set', key, token)
    else
        redis.call('set', key, token, 'px', token_ms)
    end
    return token
end
