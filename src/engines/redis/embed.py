#!/usr/bin/env python3
"""Turns Lua scripts into a table for C: HF_SCRIPT(name, "SHA-1", "text", "SHA-1", "text"), comments
removed. A line "-- include FILE" stands for what that file, beside the script, says. The second
text is for clusters, where what is published for a lock is heard at its own server alone."""

import hashlib
import json
import os
import sys

INCLUDE = "-- include "
SHARDED = (("redis.call('publish'", "redis.call('spublish'"), ("'numsub'", "'shardnumsub'"))


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


def digest_of(text):
    return hashlib.sha1(text.encode()).hexdigest()


def literal(text):
    return "\n          ".join(json.dumps(line + "\n") for line in text.split("\n"))[:-3] + '"'


for script in sys.argv[1:]:
    name = os.path.splitext(os.path.basename(script))[0].upper()
    plain = "\n".join(lines_of(script, set()))
    sharded = plain
    for word, instead in SHARDED:
        sharded = sharded.replace(word, instead)
    print(f'HF_SCRIPT({name}, "{digest_of(plain)}",\n          {literal(plain)},\n'
          f'          "{digest_of(sharded)}",\n          {literal(sharded)})')
