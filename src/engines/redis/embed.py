#!/usr/bin/env python3
"""Turns Lua scripts into a table for C: HF_SCRIPT(name, "SHA-1", "text", "SHA-1", "text"), comments
removed. A line "-- include FILE" stands for what that file, beside the script, says, and a name
like REDIS_GRANT_MS for the number that kinds.h has under it. The second text is for clusters, where
what is published for a lock is heard at its own server alone. That is what redis.call publishes;
with redis.pcall a client's inbox is told, which is heard at every server."""

import hashlib
import json
import os
import re
import sys

INCLUDE = "-- include "
SHARDED = ((r"(?<!p)call\('publish'", "call('spublish'"), (r"'numsub'", "'shardnumsub'"))
NOT_SHARDED = re.compile(r"^.*\('publish'(?!, (?:inbox,|'holdfast:')).*$", re.MULTILINE)

TIME = re.compile(r"^#define (REDIS_\w+_MS)\b(.*)$", re.MULTILINE)
NUMBER = re.compile(r"\s+(?:(\d+)|INT64_C\((\d+)\))\s*")


def times_of(header):
    times = {}
    with open(header, encoding="utf-8") as file:
        for name, value in TIME.findall(file.read()):
            number = NUMBER.fullmatch(value)
            if not number:
                sys.exit(f"{header}: {name} is not a plain number, as scripts need it:{value}")
            times[name] = number[1] or number[2]
    return times


def sharded_of(script, text):
    for word, instead in SHARDED:
        text = re.sub(word, instead, text)
    left = NOT_SHARDED.search(text)
    if left:
        sys.exit(f"{script}: in a cluster this would be heard at all servers, since it is neither "
                 f"redis.call nor to an inbox: {left.group()}")
    return text


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
    sharded = sharded_of(script, plain)
    print(f'HF_SCRIPT({name}, "{digest_of(plain)}",\n          {literal(plain)},\n'
          f'          "{digest_of(sharded)}",\n          {literal(sharded)})')
