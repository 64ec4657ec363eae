# SPDX-License-Identifier: Apache-2.0
"""Scenes in which a process is killed: one that waits in a fair lock's queue, between a holder
before it and a waiter of the other library behind it; or one that holds. The lock is not lost with
it."""

import time

from sides import FOR_EVER, LEASE_MS, LONG_LEASE_MS, SLOW, Skip, equal, wait_until
from waiting import CHANNELS, queue_of, take_a_place

# A Java client that was told of its turn, and did not hear it, has ten seconds to come.
UNHEARD_MIN_S, UNHEARD_MAX_S = 9, 20 * SLOW
# So long is the time of ours in the queue, each time it is set.
PLACE_MS = 10000
# What is promised to be at once is over long before any timer of either side.
AT_ONCE_S = 5 * SLOW
# A lease, and then some for who looks only now and then.
BURIED_MAX_S = LEASE_MS / 1000 + 6 * SLOW
# Since this version, who waits in a fair queue looks when the lease is over that it saw last;
# before, it may sleep until it is told.
LOOKING_SINCE = (3, 32)
# About a hundred are needed in that time; who spins asks thousands.
COMMANDS_MAX = 500


def version_of(redisson):
    return tuple(map(int, redisson.what.split()[1].split(".")))


def line_up_and_kill(stage, holder, victim, heir, name):
    """The holder has it, the first in the queue is dead, and the heir is behind that one."""
    holder.want("ok", "a", "lock", "fair", name, 0, LONG_LEASE_MS)
    channel = take_a_place(stage, victim, "v", name, 1)
    take_a_place(stage, heir, "h", name, 2)
    victim.stop()
    wait_until(lambda: stage.server.listeners(channel) == 0, f"{victim.what} is gone")
    equal(stage.server.ask("LLEN", queue_of(name)), b":2\r\n", "the places, with the dead one's")


def wait_for_the_heir(heir, begun, at_most_s):
    equal(heir.answer("h"), "ok", f"{heir.what}, behind the dead")
    seconds = time.monotonic() - begun
    print(f"# {heir.what} has it after {seconds:.1f} s", flush=True)
    equal(seconds <= at_most_s, True, f"after {seconds:.1f} s, whether it is {at_most_s} at most")
    return seconds


def check_nothing_left(stage, heir, name):
    for key in (queue_of(name), f"redisson_lock_timeout:{{{name}}}"):
        equal(stage.server.ask("EXISTS", key), b":0\r\n", f"whether {key} is left")
    heir.want("ok", "h", "unlock", "fair", name)
    stage.check_free(name)


def commands_of(server):
    """How many it has executed, those inside of scripts among them."""
    stats = server.ask("INFO", "stats").split(b"total_commands_processed:")[1]
    return int(stats.split(b"\r\n")[0])


def a_killed_redisson_keeps_a_fair_mutex_for_ten_seconds(stage, one, other, name):
    """Whoever lets go. It is not thrown out sooner: a living one may not listen yet."""
    del other
    heir = stage.holdfast
    with stage.another_redisson() as victim:
        line_up_and_kill(stage, one, victim, heir, name)
    before, begun = commands_of(stage.server), time.monotonic()
    one.want("ok", "a", "unlock", "fair", name)
    seconds = wait_for_the_heir(heir, begun, UNHEARD_MAX_S)
    commands = commands_of(stage.server) - before
    print(f"# in {commands} commands", flush=True)
    equal(seconds >= UNHEARD_MIN_S, True, f"after {seconds:.1f} s, whether the dead had time")
    equal(commands <= COMMANDS_MAX, True, f"of {commands} commands, whether they are few")
    check_nothing_left(stage, heir, name)


def a_killed_holdfast_is_passed_over_when_we_let_go(stage, one, other, name):
    with stage.another_holdfast() as victim:
        line_up_and_kill(stage, one, victim, other, name)
    begun = time.monotonic()
    one.want("ok", "a", "unlock", "fair", name)
    wait_for_the_heir(other, begun, AT_ONCE_S)
    check_nothing_left(stage, other, name)


def a_killed_holdfast_is_passed_over_when_one_of_ours_comes(stage, one, other, name):
    """Redisson lets go, and tells the dead one, which it takes to be alive until its place ends.
    When its own waiters look again, is its own affair; but ours who comes by tells them."""
    with stage.another_holdfast() as victim:
        line_up_and_kill(stage, other, victim, other, name)
    other.want("ok", "a", "unlock", "fair", name)
    begun = time.monotonic()
    one.want("busy", "a", "lock", "fair", name, 0, 0)
    wait_for_the_heir(other, begun, AT_ONCE_S)
    check_nothing_left(stage, other, name)


def score(stage, name, place):
    field = stage.server.ask("LINDEX", queue_of(name), place).split(b"\r\n")[1].decode()
    return float(stage.server.ask("ZSCORE", f"redisson_lock_timeout:{{{name}}}",
                                  field).split(b"\r\n")[1])


def who_has_waited_for_long_behind_us_looks_when_our_place_is_over(stage, one, other, name):
    """Redisson lets go, tells ours, who is dead, and nobody of ours comes by. Our place is shorter
    than its wait, and began anew all the time: it has to know when that would have ended."""
    if version_of(other) >= LOOKING_SINCE:
        raise Skip("this Redisson sleeps for as long as the lease that it has seen")
    with stage.another_holdfast() as victim:
        other.want("ok", "a", "lock", "fair", name, 0, LONG_LEASE_MS)
        take_a_place(stage, victim, "v", name, 1)
        take_a_place(stage, other, "h", name, 2)
        lived_ms = score(stage, name, "0") + PLACE_MS
        wait_until(lambda: score(stage, name, "0") > lived_ms, "its first place would be over")
        victim.stop()
    other.want("ok", "a", "unlock", "fair", name)
    wait_for_the_heir(other, time.monotonic(), UNHEARD_MAX_S)
    check_nothing_left(stage, other, name)


def hold_and_let_wait(stage, dead, heir, name):
    """(who waits, kind, name), for each kind. The permit of a Redisson is renewed by nobody."""
    looks = heir is stage.holdfast or version_of(heir) >= LOOKING_SINCE
    bargains = [(heir, kind, f"{name}/{kind}/{heir.what.split()[0]}")
                for kind in (*CHANNELS, *(["fair"] if looks else []))]
    for _, kind, held in bargains:
        if kind == "permit":
            dead.want("ok", kind, "permits", held, 1)
        lease = LEASE_MS if kind == "permit" else 0
        dead.want("ok", kind, "lock", kind, held, 0, lease)
        if kind == "fair":
            take_a_place(stage, heir, kind, held, 1)
            continue
        heir.tell(kind, "lock", kind, held, FOR_EVER, LONG_LEASE_MS)
        stage.wait_for_a_listener(held, CHANNELS[kind])
    return bargains


def what_the_dead_held_is_free_when_their_leases_end(stage, one, other, name):
    """They are killed together. Nobody tells those who wait: they have to know when to look."""
    with stage.another_holdfast() as ours, stage.another_redisson() as theirs:
        bargains = hold_and_let_wait(stage, ours, other, name)
        bargains += hold_and_let_wait(stage, theirs, one, name)
        begun = time.monotonic()
    for heir, kind, held in bargains:
        equal(heir.queue_of(kind).empty(), True, f"{heir.what} still waits for {held}")
    for heir, kind, held in bargains:
        equal(heir.answer(kind), "ok", f"{heir.what} who waits for {held}")
        seconds = time.monotonic() - begun
        equal(seconds <= BURIED_MAX_S, True, f"{held}, {seconds:.1f} s, whether it is soon")
        heir.want("ok", kind, "unlock", kind, held)


# What is played wherever both sides may meet: (function, whether with the sides exchanged, too)
ANYWHERE = [(a_killed_redisson_keeps_a_fair_mutex_for_ten_seconds, False),
            (a_killed_holdfast_is_passed_over_when_we_let_go, False),
            (a_killed_holdfast_is_passed_over_when_one_of_ours_comes, False),
            (what_the_dead_held_is_free_when_their_leases_end, False)]
SCENES = [(a_killed_redisson_keeps_a_fair_mutex_for_ten_seconds, True), *ANYWHERE[1:],
          (who_has_waited_for_long_behind_us_looks_when_our_place_is_over, False)]
