# SPDX-License-Identifier: Apache-2.0
"""TAP for the tidy checks: each check returns the list of what is wrong."""

import sys


class Skip(Exception):
    """The check cannot run here; the text says why."""


def run(checks):
    """Runs [(name, function)], prints TAP, and exits with 1 if any function found anything."""
    print(f"1..{len(checks)}")
    failed = False
    for number, (name, check) in enumerate(checks, 1):
        try:
            problems = check()
        except Skip as reason:
            print(f"ok {number} - {name} # SKIP {reason}")
            continue
        for problem in problems:
            print(f"# {problem}")
        print(f"{'not ok' if problems else 'ok'} {number} - {name}")
        failed = failed or bool(problems)
    sys.exit(failed)
