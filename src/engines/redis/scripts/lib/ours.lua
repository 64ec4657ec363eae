-- SPDX-License-Identifier: Apache-2.0
-- Part of other scripts.

-- Our clients are known by the version in their UUID; Redisson's have version 4.
local function is_ours(field)
    return string.sub(field, 15, 15) == '8'
end
