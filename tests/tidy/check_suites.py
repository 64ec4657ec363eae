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


def suites_in_lanes():
    lanes = re.findall(r"^ *tests \w+ \$\w+ (.*)$", CHECK.read_text(encoding="utf-8"), re.MULTILINE)
    return {suite for lane in lanes for suite in lane.split()}


def every_suite_is_in_a_lane():
    told = subprocess.run(["meson", "introspect", "--tests", BUILD], check=True, text=True,
                          capture_output=True, timeout=120).stdout
    # A test that is in several suites runs if one of them does.
    lanes = suites_in_lanes()
    missing = {test["name"]: test["suite"] for test in json.loads(told)
               if not lanes & {suite.rpartition(":")[2] for suite in test["suite"]}}
    return [f"{name}: none of {suites} is in a lane" for name, suites in missing.items()]


tap.run([("every_suite_is_in_a_lane_of_the_check", every_suite_is_in_a_lane)])
