#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What embeds the scripts for Redis sees what is said to whom, and refuses what cannot be meant."""

import pathlib
import subprocess
import sys
import tempfile

import tap

REDIS = pathlib.Path(sys.argv[1]) / "src/engines/redis"


def embed(line):
    """The exit status, and what is printed, for a script of this one line."""
    with tempfile.TemporaryDirectory() as directory:
        script = pathlib.Path(directory, "some.lua")
        script.write_text(line + "\n", encoding="utf-8")
        done = subprocess.run([sys.executable, REDIS / "scripts/embed.py",
                               REDIS / "kinds/kinds.h", script],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
    return done.returncode, done.stdout


def said(line, plain, sharded):
    code, text = embed(line)
    is_right = code == 0 and text.split('"')[3::4] == [plain, sharded]
    return [] if is_right else [f"{line}: {code}, {text}"]


def refused(line, why):
    code, text = embed(line)
    return [] if code and why in text else [f"{line}: {code}, {text}"]


def what_is_said_for_a_lock_is_heard_at_its_own_server():
    return (said("redis.pcall('spublish', channel, '0')", "redis.pcall('publish', channel, '0')",
                 "redis.pcall('spublish', channel, '0')")
            + refused("redis.pcall('publish', channel, '0')", "all servers")
            + refused("try('publish', KEYS[2], '0')", "all servers"))


def what_is_said_to_a_client_is_heard_at_all_servers():
    to_inbox = "try('publish', inbox, '0')"
    return (said(to_inbox, to_inbox, to_inbox)
            + refused("try('spublish', inbox, '0')", "one server only")
            + refused("redis.pcall('spublish', 'holdfast:' .. client, '0')", "one server only"))


def what_cannot_be_said_is_no_error():
    return [problem for line in ("redis.call('spublish', channel, '0')",
                                 "call('spublish', channel, '0')",
                                 "redis.call('publish', inbox, '0')")
            for problem in refused(line, "nothing was done")]


tap.run([(check.__name__, check)
         for check in [what_is_said_for_a_lock_is_heard_at_its_own_server,
                       what_is_said_to_a_client_is_heard_at_all_servers,
                       what_cannot_be_said_is_no_error]])
