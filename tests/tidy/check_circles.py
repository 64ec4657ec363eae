#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No files of the core call each other in a circle, nor do those of an engine that is listed."""

import re
import sys

import sources
import tap

ROOT = sys.argv[1]
DEFINITION = re.compile(r"^[a-z][^\n;={}]*?\b(hf_\w+)\([^;{}]*\)\s*\n\{", re.MULTILINE)
ENGINES = ("etcd",)
NAME = re.compile(r"(?<!struct )\bhf_\w+")


def callees(folder="src/core/"):
    """For each file, without its folder, the files whose functions it names. Those of a header are
    inline."""
    texts = {path.rpartition("/")[2]: sources.code_only(sources.read(ROOT, path))
             for path in sources.files(ROOT, (".c", ".h")) if path.startswith(folder)}
    home = {function: file for file, text in texts.items() for function in DEFINITION.findall(text)}
    uses = {file: DEFINITION.sub("{", text) if file.endswith(".c") else
            " ".join(re.findall(r"^\{.*?^\}", text, re.MULTILINE | re.DOTALL))
            for file, text in texts.items()}
    return {file: {home[name] for name in NAME.findall(text) if name in home} - {file}
            for file, text in uses.items()}


def circles(folder):
    """Each one of two files at least, as a file and its own header are one."""
    near = callees(folder)
    far = {file: set() for file in near}
    for file in near:
        left = [file]
        while left:
            for callee in near[left.pop()] - far[file]:
                far[file].add(callee)
                left.append(callee)
    found = {frozenset(other for other in far[file] if file in far[other])
             for file in near if file in far[file]}
    return [circle for circle in found if len({file[:-2] for file in circle}) > 1]


def files_are_in_no_circle():
    folders = ("src/core/", *(f"src/engines/{engine}/" for engine in ENGINES))
    return [f"these of {folder} call each other in a circle: {' '.join(sorted(circle))}"
            for folder in folders for circle in circles(folder)]


def a_step_of_a_claim_calls_claim_h_lease_h_and_the_table_alone():
    return [f"claim_fsm.c names a function of {file}" for file in
            sorted(callees()["claim_fsm.c"] - {"known.c", "known.h", "claim.h", "lease.h"})]


def calls_are_found():
    near = callees()
    return [f"{caller} calls {callee}" for caller, callee in (
        ("sync_driver.c", "claim_fsm.c"), ("sync_driver.c", "claim.h"),
        ("claim_compact.h", "claim_compact.c")) if callee not in near[caller]]


tap.run([(function.__name__, function) for function in
         (files_are_in_no_circle, calls_are_found,
          a_step_of_a_claim_calls_claim_h_lease_h_and_the_table_alone)])
