-- Finds out which of the commands that our scripts call this user may not call, and whether the server
-- refuses all that takes memory, or all that it would have to write to disk or to replicas. Each is called
-- so that it changes nothing: a server looks at the user's rights before it looks at what is to be done.
-- ARGV: 1 if only plain locks are of interest, or 0; a name that nobody uses. Answers the server's words
-- for such a refusal, or nothing, and the names of the commands that may not be called.
local none = ARGV[2]
-- What takes memory comes first: a script that has written, or tried to, may go on without.
local plain = {
    {'incrby', none, 'x'},
    {'set', none, 'x', 'px', 0},
    {'del', none},
    {'exists', none},
    {'get', none},
    {'mget', none},
    {'pexpire', none, 1},
    {'pexpireat', none, 1},
    {'pttl', none},
    {'time'},
    {'type', none},
}
local others = {
    {'decrby', none, 'x'},
    {'hdel', none, 'x'},
    {'hexists', none, 'x'},
    {'hget', none, 'x'},
    {'hgetall', none},
    {'hkeys', none},
    {'hlen', none},
    {'hscan', none, 0},
    {'hset', none, 'x', 'x', 'x'},
    {'lindex', none, 0},
    {'lpop', none},
    {'lrange', none, 0, 0},
    {'lrem', none, 0, 'x'},
    {'publish', none, ''},
    {'spublish', none, ''},
    {'pubsub', 'shardnumsub'},
    {'rename', none, none},
    {'zadd', none, 'x', 'x'},
    {'zcard', none},
    {'zpopmin', none},
    {'zrange', none, 0, 0},
    {'zrangebyscore', none, 0, 0},
    {'zrem', none, 'x'},
    {'zscore', none, 'x'},
}
-- This one cannot go wrong, and is undone.
local undone = {
    {'rpush', none, 'x'},
    {'del', none},
}
local refused, full = {}, ''

local function try(commands)
    for _, words in ipairs(commands) do
        local answer = redis.pcall(unpack(words))
        local why = type(answer) == 'table' and answer.err or ''
        if string.find(why, "can't run this command", 1, true) or
            string.find(why, 'permissions to run', 1, true) then
            if refused[#refused] ~= words[1] then
                refused[#refused + 1] = words[1]
            end
        elseif string.find(why, 'OOM ', 1, true) or string.find(why, 'MISCONF', 1, true) or
            string.find(why, 'NOREPLICAS', 1, true) then
            full = why
        end
    end
end

local function may_delete()
    for _, name in ipairs(refused) do
        if name == 'del' then
            return false
        end
    end
    return true
end

try(plain)
if ARGV[1] == '0' then
    try(others)
    if may_delete() then
        try(undone)
    end
end
return {full, refused}
