#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""README.zh-CN.md is the README in Chinese: the same sections, code, tables and links."""

import itertools
import re
import sys

import sources
import tap

ROOT = sys.argv[1]
PAGES = ("README.md", "README.zh-CN.md")
LINES_MAX = 260


def code_blocks(text):
    """The language of each block, and its code without comments."""
    for language, code in re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        code = re.sub(r"/\*.*?\*/", "", code) if language == "c" else re.sub(r"\s# .*", "", code)
        yield f"{language}: " + "\n".join(line.rstrip() for line in code.splitlines())


def table_rows(text):
    """What a row has in code; of one without, how many cells it has."""
    for row in re.findall(r"^\|.*", text, re.MULTILINE):
        yield " ".join(re.findall(r"`[^`]+`|https?://\S+", row)) or f"{row.count('|')} bars"


PARTS = {
    "heading": lambda text: re.findall(r"^(#+) ", text, re.MULTILINE),
    "code block": code_blocks,
    "row": table_rows,
    "link": lambda text: re.findall(r"\]\(((?!README)[^)]+)\)", text),
    "list item": lambda text: re.findall(r"^(- |\d+\. )", text, re.MULTILINE),
}


def without_code(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def both_have_the_same_parts():
    english, chinese = (sources.read(ROOT, page) for page in PAGES)
    problems = []
    for name, find in PARTS.items():
        pages = ((english, chinese) if name == "code block" else
                 (without_code(english), without_code(chinese)))
        for number, (one, other) in enumerate(itertools.zip_longest(*map(find, pages)), 1):
            if one != other:
                problems.append(f"{name} {number}: README.md has {one!r}, the other has {other!r}")
                break
    return problems


def the_readme_is_short():
    return [f"{page}: {count} lines, more than {LINES_MAX}: move something to docs"
            for page in PAGES
            if (count := sources.read(ROOT, page).count("\n")) > LINES_MAX]


tap.run([(check.__name__, check) for check in (both_have_the_same_parts, the_readme_is_short)])
