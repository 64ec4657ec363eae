/* SPDX-License-Identifier: Apache-2.0 */
/* Faults in words. */
#include "torture/run.h"

const char *torture_fault_name(enum torture_fault fault)
{
    static const char *const names[] = {
        "stop-holder", "stop-waiter", "kill-holder", "kill-waiter", "pause",        "clock",
        "reset",       "hole",        "mute",        "drip",        "late-release", "error-reply",
        "server-stop", "server-kill", "failover",    "store-clock", "partition",
    };

    return names[fault];
}

const char *torture_fault_text(enum torture_fault fault)
{
    static const char *const texts[] = {
        "a holder is stopped for longer than the lease",
        "the longest waiter is stopped for longer than the lease",
        "a holder is killed, and replaced by a new process",
        "the longest waiter is killed, and replaced by a new process",
        "a pause inside the library, at its sync points, mostly longer than the lease",
        "the wall clock of a client jumps, up to an hour, both ways",
        "the connections of a holder or a waiter are cut",
        "its connections are a black hole for longer than the lease",
        "its requests are executed, but the replies are lost with the connection",
        "its connections carry a hundred bytes a second",
        "its release comes late, or twice, while another owner holds the lock",
        "its request is executed, but the reply is an error, as a proxy gives it",
        "the server is stopped for longer than the lease",
        "the server is killed, and started again",
        "a replica replaces its primary without the last grants",
        "the wall clock of the server jumps ahead, by more than a lease",
        "the server that leads is cut off from the others, with half of the clients",
    };

    return texts[fault];
}
