#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""doctor asks whether a user may call what scripts for Redis call: all of it, nothing else."""

import pathlib
import re
import sys

import tap

SCRIPTS = pathlib.Path(sys.argv[1]) / "src/engines/redis/scripts"
ASKED = SCRIPTS / "lib/doctor_calls.lua"
CALL = re.compile(r"\b(?:p?call|try)\((?:redis\.p?call, )?'([a-z]+)'")
INCLUDE = re.compile(r"^-- include (\S+)$", re.MULTILINE)


def lines_of(path):
    """With what it includes."""
    text = path.read_text(encoding="utf-8")
    return text + "".join(lines_of(path) for name in INCLUDE.findall(text)
                          for path in SCRIPTS.glob("*/" + name))


def called_by(scripts):
    return {name for path in scripts for name in CALL.findall(lines_of(path))}


def asked_for(*tables):
    text = ASKED.read_text(encoding="utf-8")
    bodies = [re.search(rf"^local {table} = \{{$(.*?)^\}}$", text, re.MULTILINE | re.DOTALL)[1]
              for table in tables]
    return set(re.findall(r"^    \{'([a-z]+)'", "".join(bodies), re.MULTILINE))


def compare(called, asked):
    return ([f"{name} is called, and doctor does not ask for it" for name in called - asked]
            + [f"doctor asks for {name}, which nothing calls" for name in asked - called])


def of_all():
    scripts = [path for path in SCRIPTS.glob("*/*.lua") if path != ASKED]
    called = called_by(scripts)
    return (compare(called, asked_for("plain", "others", "undone"))
            + ([] if len(called) > 20 else [f"only {len(called)} calls were found"]))


def of_plain_locks():
    return compare(called_by(SCRIPTS.glob("simple/*.lua")), asked_for("plain"))


tap.run([("all_calls_are_asked_for", of_all), ("those_of_plain_locks_too", of_plain_locks)])
