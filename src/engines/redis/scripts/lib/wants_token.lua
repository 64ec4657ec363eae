-- SPDX-License-Identifier: Apache-2.0
-- Part of other scripts. Clients that want no tokens say so in their UUID, with which a field begins.
local function wants_token(field)
    return not string.find(field, '^...................[ab]')
end
