#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns Lua scripts into a table for C: HF_SCRIPT(name, "SHA-1", "text", "SHA-1", "text"), comments
removed. A line "-- include FILE" stands for the file of that name in any folder here, and a name
like REDIS_GRANT_MS for the number that kinds.h has under it. The second text is for clusters, where
what is said for a lock, by 'spublish', is heard at its own server alone; in the first, that is
'publish', too. A client's inbox is told by 'publish' in both: it is heard at every server. A
script that says something has done something before, and the caller hears that it is done, even if
the user may not publish: redis.pcall says it, which does not end the script."""

import hashlib
import json
import os
import pathlib
import re
import sys

INCLUDE = "-- include "
NOT_SHARDED = (("'spublish'", "'publish'"), ("'shardnumsub'", "'numsub'"))
INBOX = r"(?:inbox,|'holdfast:')"
WRONG = ((rf"\('publish'(?!, {INBOX})", "no inbox, and in a cluster heard at all servers"),
         (rf"\('spublish', {INBOX}", "an inbox, and in a cluster heard at one server only"),
         # mutant: script-may-fail
         (r"(?<!p)call\('s?publish'", "a user without PUBLISH would hear that nothing was done"))

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


def plain_of(script, text):
    """What servers outside of clusters are asked, and those of clusters before version 7."""
    for pattern, why in WRONG:
        for line in text.splitlines():
            if re.search(pattern, line):
                sys.exit(f"{script}: {why}: {line}")
    # mutant: outside-of-clusters-scripts
    for word, instead in NOT_SHARDED:
        text = text.replace(word, instead)
    return text


def included(name):
    """The one file of this name below the scripts' folder."""
    [path] = pathlib.Path(__file__).resolve().parent.glob(f"*/{name}")
    return str(path)


def lines_of(path, seen):
    """Each file once, however many ask for it."""
    if path in seen:
        return
    seen.add(path)
    with open(path, encoding="utf-8") as file:
        for line in map(str.strip, file):
            if line.startswith(INCLUDE):
                yield from lines_of(included(line[len(INCLUDE):]), seen)
            elif line and not line.startswith("--"):
                yield line


def digest_of(text):
    return hashlib.sha1(text.encode()).hexdigest()


def literal(text):
    return "\n          ".join(json.dumps(line + "\n") for line in text.split("\n"))[:-3] + '"'


times = times_of(sys.argv[1])
for script in sys.argv[2:]:
    name = os.path.splitext(os.path.basename(script))[0].upper()
    sharded = "\n".join(lines_of(script, set()))
    sharded = re.sub(r"REDIS_\w+_MS", lambda word: times[word.group()], sharded)
    plain = plain_of(script, sharded)
    print(f'HF_SCRIPT({name}, "{digest_of(plain)}",\n          {literal(plain)},\n'
          f'          "{digest_of(sharded)}",\n          {literal(sharded)})')
