#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What users read is plain: the header, the README, the man pages, the guarantees, torture's
page, the pages of the newer engines, and all texts of the library and the command.

No sentence has "who", "whoever", "whose", "somebody" or "nobody" in it; none has "so many",
"so long" or "so often", and none has more than 30 words."""

import re
import sys

import sources
import tap

ROOT = sys.argv[1]
PAGES = [
    "README.md", "docs/guarantees.md", "docs/torture.md", "docs/adding-an-engine.md",
    "docs/engines/etcd.md", "docs/engines/memcached.md", "docs/engines/mysql.md",
    "docs/engines/postgres.md", "include/holdfast.h", "include/holdfast.hpp", "docs/bindings.md",
    "docs/doctor.md", "docs/upgrading.md",
]
WORDS_MAX = 30
# Style sheets and drawings in strings.
MARKUP = (":root{", "svg ", "<svg ")
RULES = [
    (re.compile(r"\b(?:who(?:ever|se)?|(?:some|any|no|every)body)\b", re.I),
     "name the thread, client, process or user"),
    (re.compile(r"\bso (?:many|long|often)\b", re.I), "give the number a name and a unit"),
]
LITERAL = r'"(?:\\.|[^"\\\n])*"'
LITERALS = re.compile(rf"{LITERAL}(?:(?:\s|PRI[a-z]+\d+|[A-Z_]+_TEXT)*{LITERAL})*")
COMMENT = re.compile(r"/\*(.*?)\*/|//[^\n]*", re.DOTALL)
ESCAPES = {"\\n": "\n", '\\"': '"', "\\t": "\t", "\\\\": "\\"}


def blocks_of_page(text):
    """The paragraphs, list items, table cells and captions of a document, without its code."""
    text = re.sub(r"^ *```.*?^ *```", "\n", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"\]\([^)\n]*\)|^\[[^\]]+\]: .*$", "]", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`\n]*`", "X", text)
    block = []
    for line in text.splitlines() + [""]:
        cells = re.match(r"^(?:\||:|\[)(.*)$", line)
        if cells or not line.strip() or re.match(r"\s*(?:[-.#*|>] |\d+\. |\||\*-|#+ )", line):
            yield " ".join(block)
            block = []
        if cells:
            yield from cells[1].split("|")
        elif line.startswith("\t") and block and not block[-1].startswith("\t"):
            yield " ".join(block)
            block = [line]
        else:
            block.append(line)


def blocks_of_header(text):
    """The paragraphs and list items of comments, without the code in them."""
    for comment in COMMENT.finditer(text):
        block = []
        for line in (comment[1] or "").splitlines() + [""]:
            line = re.sub(r"^\s*\* ?", "", line)
            item = re.match(r" *(?:- |\d+\. |HF_[A-Z_]+ |Returns:|[A-Z]\w+: )", line)
            if not line.strip() or item or line.startswith("    "):
                yield " ".join(block)
                block = []
            if not re.match(r"    .*[;{}=]\s*(?://.*)?$", line):
                block.append(line)
        yield " ".join(block)


def blocks_of_code(text):
    """The strings of a C file; those that follow each other are one."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    for literal in LITERALS.finditer("\n".join(line for line in text.splitlines()
                                               if not line.startswith("#include"))):
        whole = "".join(re.findall(r'"((?:\\.|[^"\\\n])*)"', literal[0]))
        whole = re.sub(r'\\[nt"\\]', lambda found: ESCAPES[found[0]], whole)
        if " " in whole and not whole.startswith(MARKUP):
            yield from re.split(r"\n(?=\s|\n|-)", whole)


def sentences_of(block):
    return re.split(r"(?<=[.?!])[\"')*_]*\s+(?=[\"'(*_]*[A-Z0-9%`]|\[)", " ".join(block.split()))


def problems_of(path):
    text = sources.read(ROOT, path)
    blocks = (blocks_of_header if path.startswith("include/") else
              blocks_of_code if path.endswith((".c", ".h")) else blocks_of_page)
    problems = []
    for block in blocks(text):
        for sentence in sentences_of(block):
            problems += [f'{path}: "{found[0]}" in "{sentence[:90]}": {advice}'
                         for rule, advice in RULES for found in rule.finditer(sentence)]
            count = len(re.findall(r"\S*\w\S*", sentence))
            if count > WORDS_MAX:
                problems.append(f'{path}: {count} words, at most {WORDS_MAX}: "{sentence[:90]}..."')
    return problems


def files():
    pages = [path for path in sources.files(ROOT, (".scd", ".md"))
             if path.startswith(("docs/man/", "docs/howto/"))]
    code = [path for path in sources.files(ROOT, (".c", ".h"))
            if path.startswith(("src/", "exporter/", "torture/"))]
    return PAGES + pages + code


def what_users_read_is_plain():
    return [problem for path in files() for problem in problems_of(path)]


def functions_list_what_they_return():
    """Each public function that returns a value stands below a comment with "Returns:"."""
    text = sources.read(ROOT, "include/holdfast.h")
    problems = []
    for found in re.finditer(r"^HF_API (?!void)[^;{]*?(hf_\w+)\(", text, re.MULTILINE):
        comments = [comment[0] for comment in COMMENT.finditer(text[:found.start()])]
        if not re.search(r"\breturns:", comments[-1], re.I):
            problems.append(f"holdfast.h: the comment above {found[1]} has no \"Returns:\"")
    return problems


tap.run([(check.__name__, check)
         for check in (what_users_read_is_plain, functions_list_what_they_return)])
