#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No files of a room call each other in a circle."""

import re
import sys

import sources
import tap

ROOT = sys.argv[1]
ROOMS = [
    "src/base/", "src/core/", "src/net/", "src/recipes/", "src/cli/", "src/engines/common/",
    "src/engines/memcached/", "src/engines/sql/", "src/engines/trace/", "src/engines/quorum/",
    "src/engines/local/", "src/engines/redis/", "src/engines/zookeeper/", "src/engines/etcd/",
    "exporter/", "torture/",
]
DEFINITION = re.compile(r"^[a-z_][^\n;={}]*?\b([a-z]\w+)\([^;{}]*\)\s*\n\{", re.MULTILINE)
NAME = re.compile(r"(?<!struct )(?<!enum )\b[a-z]\w+_\w+")


def callees(room):
    """For each file, the files whose functions it names. Those of a header are inline."""
    texts = {path: sources.code_only(sources.read(ROOT, path))
             for path in sources.files(ROOT, (".c", ".h")) if path.startswith(room)}
    home = {}
    for file, text in texts.items():
        for match in DEFINITION.finditer(text):
            if file.endswith(".h") or not re.search(r"\bstatic\b", match[0].partition("(")[0]):
                home[match[1]] = file
    uses = {file: DEFINITION.sub("{", text) if file.endswith(".c") else
            " ".join(re.findall(r"^\{.*?^\}", text, re.MULTILINE | re.DOTALL))
            for file, text in texts.items()}
    return {file: {home[name] for name in NAME.findall(text) if name in home} - {file}
            for file, text in uses.items()}


def circles(near):
    """The groups of those that can reach each other."""
    far = {one: set() for one in near}
    for one in near:
        left = [one]
        while left:
            for callee in near[left.pop()] - far[one]:
                far[one].add(callee)
                left.append(callee)
    return {frozenset(other for other in far[one] if one in far[other])
            for one in near if one in far[one]}


def circles_of_files(room):
    """Each one of two files at least, as a file and its own header are one."""
    return [circle for circle in circles(callees(room)) if len({file[:-2] for file in circle}) > 1]


def files_of_a_room_are_in_no_circle():
    return [f"these call each other in a circle: {' '.join(sorted(circle))}"
            for room in ROOMS for circle in circles_of_files(room)]


def a_step_of_a_claim_calls_claim_h_lease_h_and_the_table_alone():
    names = {file.rpartition("/")[2] for file in callees("src/core/")["src/core/claim/claim_fsm.c"]}
    return [f"claim_fsm.c names a function of {file}"
            for file in sorted(names - {"known.c", "known.h", "claim.h", "lease.h", "counts.h"})]


def calls_are_found():
    claim = {file.rpartition("/")[2]: {callee.rpartition("/")[2] for callee in found}
             for file, found in callees("src/core/").items()}
    return [f"{caller} calls {callee}" for caller, callee in (
        ("sync_driver.c", "claim_fsm.c"), ("sync_driver.c", "claim.h"),
        ("claim_compact.h", "claim_compact.c")) if callee not in claim[caller]]


tap.run([(function.__name__, function) for function in
         (files_of_a_room_are_in_no_circle, calls_are_found,
          a_step_of_a_claim_calls_claim_h_lease_h_and_the_table_alone)])
