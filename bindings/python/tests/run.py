#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests, which pytest runs as well, and prints TAP: run.py WHERE_THE_PACKAGE_IS."""

import os
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [sys.argv[1], str(HERE)]
# Of the programs that the tests start.
os.environ["PYTHONPATH"] = sys.argv[1]


class Tap(unittest.TestResult):
    """One line a test; the lines of a failure before it."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def say(self, word, test, rest=""):
        self.count += 1
        print(f"{word} {self.count} - {test.id().removeprefix('test_')}{rest}", flush=True)

    def addSuccess(self, test):
        self.say("ok", test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.say("ok", test, f" # SKIP {reason}")

    def addError(self, test, err):
        if os.environ.get("HOLDFAST_TEST_URL") and err[0].__name__ == "NotSupported":
            self.addSkip(test, str(err[1]))
            return
        super().addError(test, err)
        self.fail(test, self.errors[-1][1])

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.fail(test, self.failures[-1][1])

    def fail(self, test, text):
        for line in text.splitlines():
            print(f"# {line}")
        self.say("not ok", test)


def main():
    if not sys.argv[1]:
        print("1..0 # SKIP no Python.h (python3-dev), or a sanitizer: the package was not built")
        return
    result = Tap()
    unittest.defaultTestLoader.discover(str(HERE)).run(result)
    print(f"1..{result.count}")
    sys.exit(not result.wasSuccessful())


main()
