# SPDX-License-Identifier: Apache-2.0
"""How it is seen that somebody waits: by the channel that is listened to, and for a fair lock by a
place in its queue."""

from sides import FOR_EVER, LONG_LEASE_MS, equal, wait_until

# By what each kind's waiters are woken.
CHANNELS = {"mutex": "redisson_lock__channel", "write": "redisson_rwlock", "permit": "redisson_sc"}


def queue_of(name):
    return f"redisson_lock_queue:{{{name}}}"


def wait_for_places(stage, name, places, what):
    wait_until(lambda: stage.server.ask("LLEN", queue_of(name)) == b":%d\r\n" % places, what)


def listens(stage, side, name, field):
    """Where the waiter hears that it is its turn: ours in one place for all locks."""
    if side.what == stage.holdfast.what:
        return "holdfast:" + field.split(":")[0]
    return f"redisson_lock__channel:{{{name}}}:{field}"


def wait_for_a_listener_at(stage, side, thread, channel):
    wait_until(lambda: stage.server.listeners(channel) == 1, f"{side.what}, {thread}, listens")


def fields_in_line(stage, name):
    """The waiters by the names that they have in the queue, the first in front."""
    lines = stage.server.ask("LRANGE", queue_of(name), "0", "-1").decode().split("\r\n")
    return lines[2::2]


def take_a_place(stage, side, thread, name, places):
    """Answers the channel on which it can be told."""
    side.tell(thread, "lock", "fair", name, FOR_EVER, LONG_LEASE_MS)
    wait_for_places(stage, name, places, f"{side.what}, {thread}, has a place")
    channel = listens(stage, side, name, fields_in_line(stage, name)[-1])
    wait_for_a_listener_at(stage, side, thread, channel)
    return channel


def check_next(waiting, name):
    """The first of those who wait has it, and nobody else."""
    side, thread = waiting.pop(0)
    equal(side.answer(thread), "ok", f"{side.what}, {thread}, whose turn it is")
    for other, their in waiting:
        equal(other.queue_of(their).empty(), True, f"{other.what}, {their}, still waits")
    side.want("ok", thread, "unlock", "fair", name)
