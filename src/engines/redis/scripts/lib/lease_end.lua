-- SPDX-License-Identifier: Apache-2.0
-- Part of the scripts that renew. When leases of ARGV[1] ms end that begin now, in ms, as text. To the
-- server that is cheaper to set than how long they go on from now: it has nothing to work out for
-- each of them, and tells its replicas what it was told.
local time = redis.call('time')
local lease_end = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[1])
