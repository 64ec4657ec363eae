-- SPDX-License-Identifier: Apache-2.0
-- Part of scripts that release. The answer where HDEL on the lock has failed: -1 for a name that has been
-- overwritten with something else, so that the hold is lost; else what HDEL has answered.
local function lost_or(held)
    local overwritten = type(held) == 'table' and string.find(held.err, 'WRONGTYPE', 1, true)
    -- mutant: mutex-that-was-overwritten
    return overwritten and -1 or held
end
