-- SPDX-License-Identifier: Apache-2.0
-- Part of other scripts. How a holder's field begins, Java's like ours: with a UUID and a colon.
-- Other fields make a hash another program's data.
-- mutant: lock-of-java-in-transaction
local HOLDER = '^%x+%-%x+%-%x+%-%x+%-%x+:'
