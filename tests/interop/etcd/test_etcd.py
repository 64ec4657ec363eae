#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Locks shared with Go's concurrency package, its recipes, and `etcdctl lock`: one queue for all.

usage: test_etcd.py PEERS_DIRECTORY HOLDFAST COUNTER
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from registry import build_with_go  # noqa: E402
from sides import (PATIENCE, Skip, die_with_parent, equal, need, run, scratch,  # noqa: E402
                   skip_all, wait_until)
import etcd_server  # noqa: E402

ROUNDS = 40
BUSY = 75
LONG = 5 * PATIENCE
# Adds to the number in a file.
ADD_ONE = 'n=$(cat "$0"); echo $((n + 1)) > "$0"'
LEASE = re.compile(r'"Lease" : (\d+)')


class Box:
    """What a test needs."""

    def __init__(self, directory):
        self.directory = directory
        self.cluster = etcd_server.Cluster(directory, election_ms=500)
        self.place = pathlib.Path(sys.argv[1]).resolve()
        self.place.mkdir(parents=True, exist_ok=True)
        self.holdfast, self.counter = sys.argv[2:4]
        self.url = self.cluster.url()
        self.endpoint = f"http://127.0.0.1:{self.cluster.members[0].port}"
        self.built = False

    def go(self, *arguments):
        program = self.place / "peer"
        if not self.built:
            build_with_go(str(HERE / "peer"), program)
            self.built = True
        return [str(program), self.endpoint, *arguments]

    def etcdctl(self, *arguments):
        return [os.environ.get("HOLDFAST_ETCDCTL", "etcdctl"), "--endpoints", self.endpoint,
                *arguments]

    def ours(self, *arguments):
        return [self.holdfast, "-e", self.url, *arguments]

    def keys(self, name):
        """What is in the queue, the holder's key included."""
        said = self.cluster.control("get", theirs(name) + "/", "--prefix", "--keys-only").stdout
        return len(said.split())

    def revoke_first(self, name):
        said = self.cluster.control("get", theirs(name) + "/", "--prefix", "-w", "fields",
                                    "--sort-by=CREATE", "--order=ASCEND").stdout
        self.cluster.control("lease", "revoke", f"{int(LEASE.search(said)[1]):x}")

    def wait_for_keys(self, name, count):
        wait_until(lambda: self.keys(name) == count, f"{count} keys are in the queue")


def theirs(name):
    """The name of a lock of ours for the others."""
    return etcd_server.PREFIX + name


def status(command):
    return subprocess.run(command, timeout=LONG, check=False).returncode


def start(command, **more):
    return subprocess.Popen(command, preexec_fn=die_with_parent, text=True, **more)


class Holder:
    """A Go program that holds a lock until it is told to give it back."""

    def __init__(self, box, kind, name):
        self.process = start(box.go("hold", kind, theirs(name)), stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE)

    def holds(self):
        """Waits until it does; the revision, which is its token."""
        word, revision = self.process.stdout.readline().split()
        equal(word, "held", "what the holder says")
        return int(revision)

    def gives_back(self):
        self.process.communicate("\n", timeout=LONG)
        equal(self.process.returncode, 0, "how the holder ends")


def counts_exactly(box, wanted, *commands):
    path = pathlib.Path(box.directory) / "count"
    path.write_text("0\n")
    running = [start(command(path)) for command in commands]
    codes = [process.wait(LONG) for process in running]
    assert not any(codes), f"they ended with {codes}"
    equal(int(path.read_text()), wanted, "the counter")


def our_counter(box, name, *mode):
    return lambda path: [box.counter, box.url, name, str(path), str(ROUNDS), *mode]


def go_counter(box, command, name):
    return lambda path: box.go(command, theirs(name), str(path), str(ROUNDS))


def a_counter_shared_with_go_is_exact(box):
    box.go()
    counts_exactly(box, 4 * ROUNDS, *[our_counter(box, "shared")] * 2,
                   *[go_counter(box, "count", "shared")] * 2)


def a_counter_of_writers_shared_with_go_is_exact(box):
    box.go()
    counts_exactly(box, 4 * ROUNDS, *[our_counter(box, "rw", "write")] * 2,
                   *[go_counter(box, "count-rw", "rw")] * 2)


def a_counter_shared_with_go_and_etcdctl_is_exact(box):
    box.go()
    one = " ".join(["timeout", str(LONG), *box.etcdctl("lock", theirs("three")), "--", "sh", "-c",
                    "'" + ADD_ONE + "'"])
    loop = f'i=0; while [ $i -lt {ROUNDS} ]; do {one} "$0" || exit 1; i=$((i + 1)); done'
    counts_exactly(box, 3 * ROUNDS, our_counter(box, "three"), go_counter(box, "count", "three"),
                   lambda path: ["sh", "-c", loop, str(path)])


def go_is_refused_what_we_hold(box):
    free = box.go("try", theirs("one"))
    equal(status(free), 0, "it is free at the beginning")
    equal(status(box.ours("try", "one", "--", *free)), BUSY, "what Go answers")
    equal(status(free), 0, "it is free afterwards")


def we_wait_for_what_go_holds(box, kind="mutex"):
    holder = Holder(box, kind, "two")
    holder.holds()
    equal(status(box.ours("try", "two", "--", "true")), BUSY, "what we answer")
    waiter = start(box.ours("run", "-w", f"{LONG}s", "two", "--", "true"))
    box.wait_for_keys("two", 2)
    assert waiter.poll() is None, "the waiter has it too early"
    holder.gives_back()
    equal(waiter.wait(LONG), 0, "how the waiter ends")


def we_wait_for_a_leader_that_go_has_elected(box):
    we_wait_for_what_go_holds(box, "leader")


def hold(box, verb, name, *options):
    """A command of ours under a lock, until it has a line of input."""
    ours = start(box.ours(verb, *options, name, "--", "sh", "-c", "echo held; read line"),
                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    equal(ours.stdout.readline(), "held\n", "what we say")
    return ours


def resign(ours):
    """By a signal: a candidate whose command has ended campaigns again."""
    ours.terminate()
    ours.communicate(timeout=LONG)


def go_waits_for_what_we_hold(box, kind="mutex", verb="run", name="three-a"):
    ours = hold(box, verb, name)
    go = Holder(box, kind, name)
    box.wait_for_keys(name, 2)
    resign(ours)
    go.holds()
    go.gives_back()


def go_campaigns_behind_a_leader_of_ours(box):
    go_waits_for_what_we_hold(box, "leader", "elect", "led")


def leader_of(box, name):
    return subprocess.run(box.go("leader", theirs(name)), timeout=LONG, check=True,
                          capture_output=True, text=True).stdout.strip()


def observe(box, name):
    """An observer of ours, and what it says of a leader: text and token."""
    observer = start(box.ours("elect", "--json", "--observe", name), stdout=subprocess.PIPE)
    equal(sees(observer), (None, None), "what our observer sees at first")
    return observer


def sees(observer):
    said = json.loads(observer.stdout.readline())
    return said.get("owner_text"), said.get("token")


def end(*observers):
    for observer in observers:
        observer.kill()
        observer.wait()


def go_sees_who_leads(box):
    """What Go takes for the leader's proclamation is the candidate's text."""
    equal(leader_of(box, "seen"), "none", "the leader at the beginning")
    watcher = start(box.go("observe", theirs("seen")), stdout=subprocess.PIPE)
    equal(watcher.stdout.readline(), "ready\n", "what the observer says")
    observer = observe(box, "seen")
    ours = hold(box, "elect", "seen", "--text", "ours:80")
    equal(leader_of(box, "seen"), "ours:80", "the leader")
    equal(watcher.stdout.readline(), "ours:80\n", "what the observer sees")
    text, term = sees(observer)
    equal(text, "ours:80", "what our observer sees")
    go = Holder(box, "leader", "seen")
    box.wait_for_keys("seen", 2)
    equal(leader_of(box, "seen"), "ours:80", "the leader while another one stands by")
    resign(ours)
    revision = go.holds()
    equal(sees(observer), ("go", revision), "what our observer sees of Go's leader")
    assert revision > term, f"Go's term {revision} after {term}"
    equal(leader_of(box, "seen"), "go", "the leader afterwards")
    equal(watcher.stdout.readline(), "go\n", "what the observer sees")
    shown = subprocess.run(box.ours("show", "seen"), timeout=LONG, check=True, capture_output=True,
                           text=True).stdout
    assert "seen" in shown, shown
    go.gives_back()
    equal(leader_of(box, "seen"), "none", "the leader at the end")
    equal(sees(observer), (None, None), "what our observer sees at the end")
    end(watcher, observer)


def etcdctl_takes_part_in_our_election(box):
    observer = observe(box, "ctl")
    listener = start(box.etcdctl("elect", "-l", theirs("ctl")), stdout=subprocess.PIPE)
    theirs_first = start(box.etcdctl("elect", theirs("ctl"), "etcdctl:80"),
                         stdout=subprocess.DEVNULL)
    equal(sees(observer)[0], "etcdctl:80", "what our observer sees")
    ours = start(box.ours("elect", "--text", "ours:80", "ctl", "--", "sleep", "1000"))
    box.wait_for_keys("ctl", 2)
    theirs_first.send_signal(signal.SIGINT)
    equal(sees(observer)[0], "ours:80", "what our observer sees after it")
    theirs_first.wait(LONG)
    while listener.stdout.readline() != "ours:80\n":
        assert listener.poll() is None, "etcdctl's observer has ended"
    resign(ours)
    end(listener, observer)


def we_lead_when_a_leader_of_gos_has_died(box):
    """Its session's end is the end of its leadership."""
    go = Holder(box, "leader", "died")
    go.holds()
    ours = start(box.ours("elect", "died", "--", "echo", "leads"), stdout=subprocess.PIPE)
    box.wait_for_keys("died", 2)
    go.process.kill()
    go.process.wait()
    box.revoke_first("died")  # in place of twenty seconds
    equal(ours.stdout.readline(), "leads\n", "what we say")
    resign(ours)


def readers_of_both_share_and_a_writer_waits(box):
    go = Holder(box, "read", "rw2")
    go.holds()
    equal(status(box.ours("try", "-s", "rw2", "--", "true")), 0, "a reader beside Go's")
    equal(status(box.ours("try", "-W", "rw2", "--", "true")), BUSY, "a writer beside it")
    go.gives_back()
    equal(status(box.ours("try", "-W", "rw2", "--", "true")), 0, "a writer afterwards")
    go = Holder(box, "write", "rw2")
    go.holds()
    equal(status(box.ours("try", "-s", "rw2", "--", "true")), BUSY, "a reader beside it")
    go.gives_back()


def all_are_served_in_the_order_of_their_coming(box):
    path = pathlib.Path(box.directory) / "order"
    path.write_text("")
    holder = Holder(box, "mutex", "line")
    holder.holds()
    note = f'echo $0 >> "{path}"'
    waiting = []
    for number in range(6):
        command = ["sh", "-c", note, str(number)]
        waiting.append(start(
            box.ours("run", "-w", f"{LONG}s", "line", "--", *command) if number % 2 else
            box.etcdctl("lock", theirs("line"), "--", *command)))
        box.wait_for_keys("line", number + 2)
    holder.gives_back()
    equal([process.wait(LONG) for process in waiting], [0] * 6, "how they end")
    equal(path.read_text().split(), list("012345"), "the order")


def tokens_rise_from_one_to_the_other(box):
    last = 0
    for _ in range(3):
        holder = Holder(box, "mutex", "token")
        revision = holder.holds()
        waiter = start(box.ours("run", "-w", f"{LONG}s", "token", "--", "sh", "-c",
                                "echo $HOLDFAST_TOKEN"), stdout=subprocess.PIPE)
        assert revision > last, f"Go's token {revision} after {last}"
        box.wait_for_keys("token", 2)
        holder.gives_back()
        token = int(waiter.communicate(timeout=LONG)[0])
        assert token > revision, f"our token {token} after {revision}"
        said = subprocess.run(box.etcdctl("lock", theirs("token"), "--", "sh", "-c",
                                          "echo $ETCD_LOCK_REV"), timeout=LONG, check=True,
                              capture_output=True, text=True).stdout
        last = int(said)
        assert last > token, f"etcdctl's token {last} after {token}"


TESTS = (a_counter_shared_with_go_is_exact, a_counter_of_writers_shared_with_go_is_exact,
         a_counter_shared_with_go_and_etcdctl_is_exact, go_is_refused_what_we_hold,
         we_wait_for_what_go_holds, we_wait_for_a_leader_that_go_has_elected,
         go_waits_for_what_we_hold, go_campaigns_behind_a_leader_of_ours, go_sees_who_leads,
         etcdctl_takes_part_in_our_election,
         we_lead_when_a_leader_of_gos_has_died, readers_of_both_share_and_a_writer_waits,
         all_are_served_in_the_order_of_their_coming, tokens_rise_from_one_to_the_other)


def main():
    why = etcd_server.missing()
    if why:
        skip_all(why)
    with scratch() as directory:
        try:
            box = Box(directory)
        except Skip as reason:
            skip_all(reason)
        try:
            return run([(test.__name__, test) for test in TESTS], lambda test: test(box))
        finally:
            box.cluster.end()


sys.exit(main())
