#!/usr/bin/env python3
"""Turns Lua scripts into a table for C: HF_SCRIPT(name, "SHA-1", "text"), comments removed. A line
"-- include FILE" stands for what that file, beside the script, says."""

import hashlib
import json
import os
import sys

INCLUDE = "-- include "


def lines_of(path, seen):
    """Each file once, however many ask for it."""
    if path in seen:
        return
    seen.add(path)
    with open(path, encoding="utf-8") as file:
        for line in map(str.strip, file):
            if line.startswith(INCLUDE):
                yield from lines_of(os.path.join(os.path.dirname(path), line[len(INCLUDE):]), seen)
            elif line and not line.startswith("--"):
                yield line


for script in sys.argv[1:]:
    name = os.path.splitext(os.path.basename(script))[0].upper()
    text = "\n".join(lines_of(script, set()))
    digest = hashlib.sha1(text.encode()).hexdigest()
    pieces = "\n          ".join(json.dumps(line + "\n") for line in text.split("\n"))[:-3] + '"'
    print(f'HF_SCRIPT({name}, "{digest}",\n          {pieces})')
