#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the shared library exports is what the header declares: all of it, and nothing else. It
takes little of the room that late-loaded libraries share."""

import re
import shutil
import subprocess
import sys

import tap

LIBRARY, HEADER = sys.argv[1:3]
TLS_BYTES_MAX = 64


def exported():
    if not shutil.which("nm"):
        raise tap.Skip("nm is not installed")
    listing = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], check=True,
                             capture_output=True, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in listing.splitlines()}


def declared():
    with open(HEADER, encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.DOTALL)
    return set(re.findall(r"HF_API\b[^;(]*?\b(hf_\w+)\s*\(", text))


def names():
    return [f"{name} is exported" for name in sorted(exported())
            if not re.match(r"hf_[a-z]", name)]


def all_declared_are_exported():
    if not declared():
        return [f"{HEADER} declares nothing?"]
    return [f"{name} is declared and not exported" for name in sorted(declared() - exported())]


def all_exported_are_declared():
    return [f"{name} is exported and not declared" for name in sorted(exported() - declared())]


def thread_variables_are_few():
    """The loader takes all of a library's thread variables out of one room if any is near."""
    if not shutil.which("readelf"):
        raise tap.Skip("readelf is not installed")
    listing = subprocess.run(["readelf", "-lW", LIBRARY], check=True, capture_output=True,
                             text=True).stdout
    rows = [line.split() for line in listing.splitlines()]
    sizes = [int(row[5], 16) for row in rows if row[:1] == ["TLS"]]
    if not sizes:
        return ["the library has no segment for thread variables?"]
    return [f"thread variables take {size} bytes, more than {TLS_BYTES_MAX}" for size in sizes
            if size > TLS_BYTES_MAX]


tap.run([
    ("exports_begin_with_hf_", names),
    ("what_is_declared_is_exported", all_declared_are_exported),
    ("what_is_exported_is_declared", all_exported_are_declared),
    ("thread_variables_take_at_most_64_bytes", thread_variables_are_few),
])
