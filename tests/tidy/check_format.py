#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The C files look as clang-format would write them."""

import re
import shutil
import subprocess
import sys

import sources
import tap

ROOT = sys.argv[1]
VERSION = "14"


def formatted():
    if not shutil.which("clang-format"):
        raise tap.Skip("clang-format is not installed")
    version = subprocess.run(["clang-format", "--version"], check=True, capture_output=True,
                             text=True).stdout
    major = re.search(r"version (\d+)", version)
    if not major or major[1] != VERSION:
        raise tap.Skip(f"clang-format is not version {VERSION}: {version.strip()}")
    result = subprocess.run(
        ["clang-format", "--dry-run", *sources.files(ROOT, sources.C_ENDINGS)], cwd=ROOT,
        capture_output=True, text=True, timeout=300)
    wrong = re.findall(r"^([^:\n]+):\d+:\d+: warning", result.stderr, re.MULTILINE)
    return [f"{path}: run clang-format -i on it" for path in dict.fromkeys(wrong)]


tap.run([("files_are_formatted", formatted)])
