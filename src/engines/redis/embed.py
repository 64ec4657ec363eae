#!/usr/bin/env python3
"""Turns Lua scripts into a table for C: HF_SCRIPT(name, "SHA-1", "text"), comments removed."""

import hashlib
import json
import os
import sys


def stripped(path):
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    return "\n".join(line for line in lines if line and not line.startswith("--"))


for script in sys.argv[1:]:
    name = os.path.splitext(os.path.basename(script))[0].upper()
    text = stripped(script)
    digest = hashlib.sha1(text.encode()).hexdigest()
    pieces = "\n          ".join(json.dumps(line + "\n") for line in text.split("\n"))[:-3] + '"'
    print(f'HF_SCRIPT({name}, "{digest}",\n          {pieces})')
