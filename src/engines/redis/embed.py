#!/usr/bin/env python3
"""Turns Lua scripts into a table for C: HF_SCRIPT(name, "SHA-1", "text", "SHA-1", "text"), comments
removed. A line "-- include FILE" stands for what that file, beside the script, says, and a name
like REDIS_GRANT_MS for the number that kinds.h has under it. The second text is for clusters, where
what is published for a lock is heard at its own server alone."""

import hashlib
import json
import os
import re
import sys

INCLUDE = "-- include "
SHARDED = (("redis.call('publish'", "redis.call('spublish'"), ("'numsub'", "'shardnumsub'"))

TIME = re.compile(r"#define (REDIS_\w+_MS) (?:INT64_C\()?(\d+)")


def times_of(header):
    with open(header, encoding="utf-8") as file:
        return dict(TIME.findall(file.read()))


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


times = times_of(sys.argv[1])
for script in sys.argv[2:]:
    name = os.path.splitext(os.path.basename(script))[0].upper()
    plain = "\n".join(lines_of(script, set()))
    plain = re.sub(r"REDIS_\w+_MS", lambda word: times[word.group()], plain)
    sharded = plain
    for word, instead in SHARDED:
        sharded = sharded.replace(word, instead)
    print(f'HF_SCRIPT({name}, "{digest_of(plain)}",\n          {literal(plain)},\n'
          f'          "{digest_of(sharded)}",\n          {literal(sharded)})')
