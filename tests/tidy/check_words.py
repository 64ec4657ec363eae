#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Comments and documents name the thing that acts, and give numbers a name and a unit.

In src and torture the words that hide both stand nowhere, in comments and sentences. Elsewhere
tests/tidy/words.list names the files that were written before these rules and still break them. The
list may only shrink: a file that is in it and breaks no rule any more has to leave it."""

import pathlib
import re
import sys

import sources
import tap

ROOT = sys.argv[1]
LIST = pathlib.Path(__file__).with_name("words.list")
OWN = {"tests/tidy/check_face.py", "tests/tidy/check_words.py"}

VERBS = ("is|are|was|has|had|have|waits?|wants?|may|can|could|does|do|asks?|holds?|comes?|"
         "hears?|takes?|gives?|knows?|goes|would|will|must|says?|tells?|needs?|reads?|writes?|"
         "looks?|lets?")
ACTOR = "name the thread, client or request"
RULES = [
    (re.compile(r"\b(?:whoever|whomever|whatsoever)\b", re.I), ACTOR),
    (re.compile(rf"(?:^|[.:;,(] ?|\b(?:and|or|but|that|for|of|to|by|if|where|when|as|than) )who"
                rf" (?:{VERBS})\b", re.I), ACTOR),
    (re.compile(r"\b(?:somebody|anybody|nobody)\b", re.I), ACTOR),
    (re.compile(r"\bso (?:many|much|long|often) (?:at most|of|as it|a time)\b|\bfor so long\b|"
                r"\bin so many\b", re.I), "give the number a name and a unit"),
    (re.compile(r"\bto be had\b", re.I), 'say "held", "free" or "not available"'),
]

STRICT = ("src/", "exporter/", "torture/")
STRICT_RULES = [
    (re.compile(r"\b(?:whom?(?:ever)?|(?:some|any)(?:body|one)|nobody)\b", re.I), ACTOR),
    (re.compile(r"\bso (?:many|much|few|long|often)\b", re.I), "give the number a name"),
]


def comments_of(path, text):
    """The prose of a file: its comments, or, of a document, all but its code and its tables."""
    if path.endswith(sources.C_ENDINGS):
        return [re.sub(r"^\s*\*? ?", "", part, flags=re.MULTILINE)
                for part in re.findall(r"/\*(.*?)\*/", text, re.DOTALL)]
    if path.endswith((".lua", ".sql")):
        return ["\n".join(re.findall(r"--(.*)$", text, re.MULTILINE))]
    if path.endswith(".py"):
        return re.findall(r'"""(.*?)"""', text, re.DOTALL) + [
            "\n".join(re.findall(r"(?:^|\s)# (.*)$", text, re.MULTILINE))]
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"\]\([^)\n]*\)", "]", text)
    return [re.sub(r"`[^`\n]*`", "x", re.sub(r"^\|.*$", "", text, flags=re.MULTILINE))]


def problems_of(path):
    problems = []
    for part in comments_of(path, sources.read(ROOT, path)):
        flat = " ".join(part.split())
        for rule, advice in RULES:
            problems += [f'{path}: "{found[0].strip()}": {advice}' for found in rule.finditer(flat)]
    return problems


def files():
    found = sources.files(ROOT, (*sources.C_ENDINGS, ".lua", ".py", ".md"))
    found += [name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    return [path for path in found if path not in OWN]


def sentences_of(path, text):
    """The comments of a file, and of C its strings of more than one word."""
    strings = re.findall(r'"((?:\\.|[^"\\\n])*)"', text) if path.endswith(sources.C_ENDINGS) else []
    return comments_of(path, text) + [string for string in strings if " " in string]


def src_and_torture_name_what_acts():
    problems = []
    for path in sources.files(ROOT, (".c", ".h", ".cpp", ".lua", ".py", ".sql")):
        parts = sentences_of(path, sources.read(ROOT, path)) if path.startswith(STRICT) else []
        text = " | ".join(" ".join(part.split()) for part in parts)
        problems += [f'{path}: "{text[max(0, hit.start() - 30):hit.end() + 20]}": {advice}'
                     for rule, advice in STRICT_RULES for hit in rule.finditer(text)]
    return problems


def old_files():
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def new_text_names_what_acts():
    old = old_files()
    return [problem for path in files() if path not in old for problem in problems_of(path)]


def the_list_of_old_files_shrinks():
    present = set(files())
    return ([f"{path}: there is no such file; take it out of {LIST.name}"
             for path in sorted(old_files() - present)] +
            [f"{path}: breaks no rule any more; take it out of {LIST.name}"
             for path in sorted(old_files() & present) if not problems_of(path)])


if __name__ == "__main__" and sys.argv[2:] == ["--list"]:
    print("# Written before the rules of check_words.py. This list only shrinks.")
    print("\n".join(path for path in files() if problems_of(path)))
else:
    tap.run([(check.__name__, check)
             for check in (new_text_names_what_acts, src_and_torture_name_what_acts,
                            the_list_of_old_files_shrinks)])
