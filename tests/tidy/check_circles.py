#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files of the core that call each other in a circle: those below alone, and these only shrink."""

import re
import sys

import sources
import tap

ROOT = sys.argv[1]
# In a circle each file reaches each other one by calls. A file that leaves it is taken out here.
CIRCLES = [
    {"acquire", "admit", "async_driver", "claim", "claim_compact", "claim_waiters", "client",
     "close", "engine_registry", "fast_path", "hold", "lease", "lock_table", "loss", "oneshot",
     "sync_driver"},
    {"loop_handoff", "uv_loop"},
]
DEFINITION = re.compile(r"^[a-z][^\n;={}]*?\b(hf_\w+)\([^;{}]*\)\s*\n\{", re.MULTILINE)
NAME = re.compile(r"\bhf_\w+")


def callees():
    """For each file, by its name without folder and ending, the files whose functions it names."""
    texts = {path.rpartition("/")[2][:-2]: sources.code_only(sources.read(ROOT, path))
             for path in sources.files(ROOT, (".c",)) if path.startswith("src/core/")}
    home = {function: file for file, text in texts.items() for function in DEFINITION.findall(text)}
    return {file: {home[name] for name in NAME.findall(text) if name in home} - {file}
            for file, text in texts.items()}


def circles():
    near = callees()
    far = {file: set() for file in near}
    for file in near:
        left = [file]
        while left:
            for callee in near[left.pop()] - far[file]:
                far[file].add(callee)
                left.append(callee)
    return {frozenset(other for other in far[file] if file in far[other])
            for file in near if file in far[file]}


def only_the_known_circles_are_there():
    found = circles()
    problems = [f"a new circle, or a larger one: {' '.join(sorted(circle))}" for circle in found
                if not any(circle <= known for known in CIRCLES)]
    rest = [known - frozenset().union(*found) for known in CIRCLES]
    return problems + [f"in no circle any more, take it out of the list: {file}"
                       for files in rest for file in sorted(files)]


def a_step_of_a_claim_needs_no_other_file_of_the_core_but_the_table():
    return [f"claim_fsm.c names a function of {file}.c"
            for file in sorted(callees()["claim_fsm"] - {"known"})]


def calls_are_found():
    return [] if "claim_fsm" in callees()["sync_driver"] else ["sync_driver.c calls claim_fsm.c"]


tap.run([(function.__name__, function) for function in
         (only_the_known_circles_are_there, calls_are_found,
          a_step_of_a_claim_needs_no_other_file_of_the_core_but_the_table)])
