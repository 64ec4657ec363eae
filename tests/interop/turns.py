# SPDX-License-Identifier: Apache-2.0
"""Scenes for a library and holdfast that share one lock, and hold it in turns. A scene's box has

    peer(FILE, ROUNDS)  the library's command: counts in the file; with 0 rounds it exits with 75 if
                        the lock is held; with "hold" it says "held", and releases at a line
    ours(...)           holdfast's command
    counter, url, name, directory
"""

import pathlib
import subprocess

from sides import PATIENCE, die_with_parent, equal, wait_until

ROUNDS = 60
# They take turns by chance, and wait longer and longer in between.
LONG = 5 * PATIENCE
BUSY = 75


def status(command):
    return subprocess.run(command, timeout=LONG, check=False).returncode


def a_shared_counter_is_exact(box):
    path = pathlib.Path(box.directory) / "count"
    path.write_text("0\n", encoding="ascii")
    running = []

    def start_two(command):
        running.extend(subprocess.Popen(command, preexec_fn=die_with_parent) for _ in range(2))

    start_two(box.peer(str(path), str(ROUNDS)))
    # Some of them take a second to start, and ours would be done by then.
    wait_until(lambda: path.read_text(encoding="ascii").strip() not in ("", "0") or
               all(process.poll() is not None for process in running), "the peers count")
    start_two([box.counter, box.url, box.name, str(path), str(ROUNDS)])
    equal([process.wait(LONG) for process in running], [0] * 4, "how they end")
    equal(int(path.read_text(encoding="ascii")), 4 * ROUNDS, "the count")


def the_peer_is_refused_what_we_hold(box):
    free = box.peer("-", "0")
    equal(status(free), 0, "whether it is free at the beginning")
    equal(status(box.ours("try", box.name, "--", *free)), BUSY, "what it answers while we hold it")
    equal(status(free), 0, "whether it is free afterwards")


def we_are_refused_what_the_peer_holds(box):
    """And the waiter has it when the peer gives it back."""
    took = box.ours("try", box.name, "--", "true")
    equal(status(took), 0, "whether it is free at the beginning")
    holder = subprocess.Popen(box.peer("-", "hold"), stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
    equal(holder.stdout.readline(), "held\n", "what the holder says")
    equal(status(took), BUSY, "what we are answered")
    shown = subprocess.run(box.ours("show", box.name), capture_output=True, text=True, check=True)
    assert "held" in shown.stdout, shown.stdout
    waiter = subprocess.Popen(box.ours("run", "-w", f"{LONG}s", box.name, "--", "true"),
                              preexec_fn=die_with_parent)
    equal(status(took), BUSY, "what we are answered then")
    assert waiter.poll() is None, "the waiter has it too early"
    holder.communicate("\n", timeout=LONG)
    equal(holder.returncode, 0, "how the holder ends")
    equal(waiter.wait(LONG), 0, "how the waiter ends")
    equal(status(took), 0, "whether it is free afterwards")


SCENES = (a_shared_counter_is_exact, the_peer_is_refused_what_we_hold,
          we_are_refused_what_the_peer_holds)
