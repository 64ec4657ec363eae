#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The engine contract stays small: seven slots that every engine fills, at most five optional."""

import re
import sys

import sources
import tap

ROOT = sys.argv[1]
OPTIONAL_MAX = 5
MANDATORY = 7


def slots():
    """The slots above and below the line that says which may be NULL."""
    text = sources.read(ROOT, "src/core/engine.h")
    table = re.search(r"^struct hf_engine_ops \{(.*?)^\};", text, re.MULTILINE | re.DOTALL)[1]
    above, below = table.split("that may be NULL")
    above = above.split("every engine fills")[1]
    pattern = r"^    (?:[\w ]+ \*?\(\*(\w+)\)\(|const struct \w+ \*(\w+);)"
    return [[one or other
             for one, other in re.findall(pattern, sources.code_only(part), re.MULTILINE)]
            for part in (above, below)]


def contract_has_seven_slots_and_five_optional_ones():
    mandatory, optional = slots()
    problems = []
    if len(mandatory) != MANDATORY:
        problems.append(f"engine.h: {len(mandatory)} mandatory slots, not {MANDATORY}: {mandatory}")
    if len(optional) > OPTIONAL_MAX:
        problems.append(f"engine.h: {len(optional)} optional slots, at most {OPTIONAL_MAX}")
    return problems


def tables():
    """(path, name, filled slots) of each table that the core can find, or that an open picks."""
    for path in sources.files(ROOT, (".c",)):
        if not path.startswith("src/engines/"):
            continue
        text = re.sub(r"\\\n", " ", sources.code_only(sources.read(ROOT, path)))
        macros = dict(re.findall(r"^#define (\w+)\s+(.*)$", text, re.MULTILINE))
        pattern = r"struct hf_engine_ops (\w+) = \{(.*?)^\};"
        for table in re.finditer(pattern, text, re.MULTILINE | re.DOTALL):
            body = re.sub(r"\b[A-Z_]+\b", lambda word: macros.get(word[0], ""), table[2])
            yield path, table[1], set(re.findall(r"\.(\w+) =", body))


def engines_fill_all_mandatory_slots():
    mandatory = slots()[0]
    found = list(tables())
    problems = [f"{path}: {name} has no `{slot}`" for path, name, filled in found
                for slot in mandatory if slot not in filled]
    return problems if found else ["no engine's table was found: mend this test"]


tap.run([(check.__name__, check)
         for check in (contract_has_seven_slots_and_five_optional_ones,
                       engines_fill_all_mandatory_slots)])
