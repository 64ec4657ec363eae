-- SPDX-License-Identifier: Apache-2.0
-- Finds out which of the commands that our scripts call this user may not call, and whether the server
-- refuses all that takes memory, or all that it would have to write to disk or to replicas. Each is called
-- so that it changes nothing: a server looks at the user's rights before it looks at what is to be done.
-- ARGV: 1 if only plain locks are of interest, or 0; a name that no program uses. Answers the
-- server's words for such a refusal, or nothing; the names of the commands that may not be called;
-- and of those that could not be tried.
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
    {'persist', none},
    {'publish', none, ''},
    -- mutant: user-owner-may-tell-none
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
-- This one cannot go wrong, and is undone by the first of those below that may be called.
local undone = {
    {'rpush', none, 'x'},
}
local undoing = {
    {'del', none},
    {'lpop', none},
    {'lrem', none, 0, 'x'},
    {'pexpire', none, 0},
}
local refused, is_refused, untried, full = {}, {}, {}, ''

local function try(words)
    local answer = redis.pcall(unpack(words))
    local why = type(answer) == 'table' and answer.err or ''
    -- mutant: doctor-does-not-see
    if string.find(why, "can't run this command", 1, true) or
        string.find(why, 'permissions to run', 1, true) then
        -- mutant: right-that-lacks-is-named
        refused[#refused + 1] = not is_refused[words[1]] and words[1] or nil
        is_refused[words[1]] = true
    elseif string.find(why, 'OOM ', 1, true) or string.find(why, 'MISCONF', 1, true) or
        string.find(why, 'NOREPLICAS', 1, true) then
        -- mutant: doctor-does-not-hear
        full = why
    end
end

local function try_all(commands)
    for _, words in ipairs(commands) do
        try(words)
    end
end

local function try_undone(commands)
    local undo
    for _, words in ipairs(undoing) do
        undo = undo or not is_refused[words[1]] and words
    end
    for _, words in ipairs(commands) do
        if undo then
            try(words)
            try(undo)
        else
            untried[#untried + 1] = words[1]
        end
    end
end

try_all(plain)
if ARGV[1] == '0' then
    try_all(others)
    try_undone(undone)
end
return {full, refused, untried}
