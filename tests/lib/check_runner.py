#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests that must fail (misuse.c): the runner must say so, and leave nothing."""

import os
import re
import subprocess
import sys
import tempfile

EXPECTED = {
    "fails_a_check": "got 2, wanted 3",
    "fails_in_a_thread": 'got "one thing", wanted "another"',
    "fails_before_a_thread_is_joined": "not joined",
    "fails_in_a_child_that_nobody_joins": "in the child",
    "leaks_a_descriptor": "descriptors leaked",
    "crashes": "killed by signal",
    "hangs": "timed out",
}


def run(program, *names, **more):
    return subprocess.run([program, *names], capture_output=True, text=True, timeout=60,
                          env={**os.environ, **more}, check=False)


def check_failure(program, name, said):
    result = run(program, name)
    if result.returncode == 0 or f"not ok 1 - {name}" not in result.stdout:
        return f"was taken for a success: {result.stdout!r}"
    if said not in result.stdout:
        return f"does not say {said!r}: {result.stdout!r}"
    if "thread leak" in result.stderr:
        return f"reports a thread beside that: {result.stderr!r}"
    return None


def check_skip(program):
    result = run(program, "is_skipped")
    wanted = "ok 1 - is_skipped # SKIP because 42"
    return None if result.returncode == 0 and wanted in result.stdout else result.stdout


def check_nothing_left(program):
    with tempfile.TemporaryDirectory() as directory:
        result = run(program, "leaves_a_child", HOLDFAST_TEST_DIR=directory)
        if f" in {directory}/" not in result.stdout:
            return f"its files are not where they were wanted: {result.stdout!r}"
    found = re.search(r"left (\d+) in (\S+)", result.stdout)
    if result.returncode != 0 or not found:
        return f"did not run: {result.stdout!r}"
    if os.path.exists(f"/proc/{found[1]}"):
        return f"process {found[1]} lives on"
    if os.path.exists(found[2]):
        return f"{found[2]} is still there"
    return None


def main():
    program = sys.argv[1]
    checks = [(name, lambda n=name, s=said: check_failure(program, n, s))
              for name, said in EXPECTED.items()]
    checks.append(("leaves_a_child", lambda: check_nothing_left(program)))
    checks.append(("is_skipped", lambda: check_skip(program)))
    checks.append(("no_test_of_that_name",
                   lambda: None if run(program, "nonesuch").returncode else "exit 0"))
    print(f"1..{len(checks)}")
    failed = 0
    for number, (name, check) in enumerate(checks, 1):
        problem = check()
        failed += problem is not None
        if problem:
            print(f"# {problem}")
        print(f"{'not ok' if problem else 'ok'} {number} - {name}")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
