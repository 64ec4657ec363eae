#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pages for contributors name files and tests that exist, and their commands work."""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

import sources
import tap

ROOT, BUILD = sys.argv[1], sys.argv[2]
PAGES = ("CONTRIBUTING.md", "docs/adding-an-engine.md", "docs/ARCHITECTURE.md",
         "docs/internals/engine-folders.md", "docs/internals/fast-paths.md",
         "docs/internals/first-day.md")
FOLDERS = "docs/internals/engine-folders.md"
TOP_PAGES = ("README.md", "README.zh-CN.md", "CONTRIBUTING.md", "CHANGELOG.md")
PATH = re.compile(r"`((?:src|torture|tests|tools|docs|include|models|bench|"
                  r"base|core|net|engines)/[^`\s]*)`")
LINK = re.compile(r"\[([^\]\n]*)\]\(([^)#\s]+)[^)]*\)")
PLACEHOLDER = re.compile(r"NAME|[<*]")


def files_that_pages_name_exist():
    return [f"{page}: {path} does not exist"
            for page in PAGES for path in PATH.findall(sources.read(ROOT, page))
            if not PLACEHOLDER.search(path) and
            not any(os.path.exists(os.path.join(ROOT, above, path)) for above in ("", "src"))]


def engines_have_what_their_tables_name():
    """Each section names a folder, and its table's first column what is in it."""
    problems = []
    for section in sources.read(ROOT, FOLDERS).split("\n## ")[1:]:
        folder = re.search(r"`(src/engines/\w+/)`", section)[1]
        cells = " ".join(re.findall(r"^\|([^|]*)\|", section, re.MULTILINE))
        problems += [f"{FOLDERS}: {folder}{name} does not exist"
                     for name in re.findall(r"`([^`]+)`", cells)
                     if not os.path.exists(os.path.join(ROOT, folder, name))]
    return problems


def engines_of_the_map_have_its_files():
    """The table of ARCHITECTURE.md: a folder, then files in it."""
    rows = re.findall(r"^\| `(engines/[\w/]+)` \|(.*)$",
                      sources.read(ROOT, "docs/ARCHITECTURE.md"), re.MULTILINE)
    return [f"docs/ARCHITECTURE.md: {folder}/{name} does not exist" for folder, row in rows
            for name in re.findall(r"`([\w/]+(?:\.c|/))`", row)
            if not os.path.exists(os.path.join(ROOT, "src", folder, name))] or (
        [] if rows else ["docs/ARCHITECTURE.md: no table of engines"])


def links_lead_to_files():
    """Also: the number of a decision is that of its page."""
    problems = []
    for page in sources.files(ROOT, (".md",)) + list(TOP_PAGES):
        # In code, brackets before a parenthesis are no link.
        prose = re.sub(r"^```.*?^```", "", sources.read(ROOT, page), flags=re.MULTILINE | re.DOTALL)
        for text, link in LINK.findall(prose):
            path = os.path.join(ROOT, os.path.dirname(page), link)
            number = re.fullmatch(r"ADR (\d+)", text)
            if "://" not in link and not os.path.exists(path):
                problems.append(f"{page}: {link} does not exist")
            elif number and not os.path.basename(path).startswith(f"{int(number[1]):04}-"):
                problems.append(f"{page}: {link} is not {text}")
    return problems


def commands(page):
    """The lines of a page's shell examples."""
    blocks = re.findall(r"^```sh\n(.*?)^```", sources.read(ROOT, page), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


def known_tests():
    """The names of all tests, their suites, and their programs."""
    told = subprocess.run(["meson", "introspect", "--tests", BUILD], check=True, text=True,
                          capture_output=True, timeout=120).stdout
    tests = json.loads(told)
    return ({test["name"] for test in tests},
            {suite.rpartition(":")[2] for test in tests for suite in test["suite"]},
            {os.path.relpath(word, BUILD) for test in tests for word in test["cmd"]
             if word.startswith(BUILD)})


def run_in_build(line, store):
    command = line.replace("build/work", shlex.quote(BUILD))
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True,
                          errors="replace", timeout=200, check=False,
                          env={**os.environ, "HOLDFAST_DIR": store})
    return [f"{line}: exit {done.returncode}: {done.stdout[-300:]} {done.stderr[-300:]}"] \
        if done.returncode else []


def problems_of_mutants(line, word, path):
    names = re.findall(r"^name: (.*)", sources.read(ROOT, path), re.MULTILINE)
    return [] if any(word in name for name in names) else [f"{line}: no such mutant"]


def problems_of_command(line, names, suites, programs, store):
    words = shlex.split(line)
    if words[:2] in (["meson", "setup"], ["ninja", "-C"]):
        return []
    if words[:2] == ["meson", "test"]:
        rest = words[words.index("build/work") + 1:]
        if rest[0] == "--suite":
            return [f"{line}: no suite {suite}" for suite in rest[1:] if suite not in suites]
        return [f"{line}: no test {name}" for name in rest if name not in names]
    if words[:2] == ["tools/run-mutants", "--only"]:
        return problems_of_mutants(line, words[2], words[3])
    if words[0] == "python3":
        return [] if os.path.exists(os.path.join(ROOT, words[1])) else [f"{line}: no such file"]
    if words[0].startswith(("build/work/tests/chaos/", "build/work/tests/unit/",
                            "build/work/tests/trace/")):
        found = words[0].removeprefix("build/work/") in programs
        return [] if found else [f"{line}: no test has this program"]
    return run_in_build(line, store)


def commands_of_pages_work():
    names, suites, programs = known_tests()
    with tempfile.TemporaryDirectory() as store:
        return [problem for page in ("docs/adding-an-engine.md", "docs/internals/first-day.md")
                for line in commands(page)
                for problem in problems_of_command(line, names, suites, programs, store)]


tap.run([(check.__name__, check) for check in
         (files_that_pages_name_exist, engines_have_what_their_tables_name,
          engines_of_the_map_have_its_files, links_lead_to_files, commands_of_pages_work)])
