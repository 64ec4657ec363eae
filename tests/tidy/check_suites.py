#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every suite of the tests is in a lane of tools/check: else nothing would ever run it."""

import json
import pathlib
import re
import subprocess
import sys

import tap

CHECK = pathlib.Path(sys.argv[1]) / "tools/check"
BUILD = sys.argv[2]
# Programs that another suite runs too, several at a server: here one can be run by its name.
ALONE = {"postgres-alone", "zookeeper-alone"}


def suites_in_lanes():
    """A lane names suites, or a variable with several."""
    text = CHECK.read_text(encoding="utf-8")
    lists = dict(re.findall(r"^(\w+)='([^'$]*)'$", text, re.MULTILINE))
    lanes = re.findall(r"^ *tests \w+ \$\w+ (.*)$", text, re.MULTILINE)
    words = [word for lane in lanes for word in lane.split()]
    return {suite for word in words
            for suite in (lists.get(word[1:], "").split() if word.startswith("$") else [word])}


def every_suite_is_in_a_lane():
    told = subprocess.run(["meson", "introspect", "--tests", BUILD], check=True, text=True,
                          capture_output=True, timeout=120).stdout
    # A test that is in several suites runs if one of them does.
    lanes = suites_in_lanes() | ALONE
    missing = {test["name"]: test["suite"] for test in json.loads(told)
               if not lanes & {suite.rpartition(":")[2] for suite in test["suite"]}}
    return [f"{name}: none of {suites} is in a lane" for name, suites in missing.items()]


tap.run([("every_suite_is_in_a_lane_of_the_check", every_suite_is_in_a_lane)])
