#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""House rules no compiler knows: lengths, purposes, banned calls, include directions."""

import re
import sys

import sources
import tap

ROOT = sys.argv[1]
LINE_MAX = 100
FUNCTION_MAX = 80
FILE_MAX = 620
# The contract is one file, in C and in C++.
FILE_MAX_OF = {"include/holdfast.h": 1300, "include/holdfast.hpp": 1000}
FOLDER_MAX = 30
NAME_MAX = 3
# They do not say what a function does.
VAGUE = {"why", "say", "never", "left", "who", "live", "cannot_be", "what_was_seen"}
LICENCE = "SPDX-" "License-Identifier: Apache-2.0"

C_FILES = sources.files(ROOT, sources.C_ENDINGS)
TEXT_FILES = C_FILES + sources.files(ROOT, (".py", ".pml", "meson.build"))

BANNED = {
    "strcpy": "it knows no size", "strcat": "it knows no size", "sprintf": "it knows no size",
    "vsprintf": "it knows no size", "gets": "it knows no size", "atoi": "it knows no errors",
    "atol": "it knows no errors", "strtok": "it keeps state", "gmtime": "it keeps state",
    "localtime": "it keeps state", "alloca": "the stack is no heap",
}
SLEEPS = ("sleep", "usleep")
# Where time itself is the matter.
NANOSLEEP_IN = {"tests/lib/tools.c"}


def line_length():
    return [f"{path}:{number}: {len(line)} columns, more than {LINE_MAX}"
            for path in TEXT_FILES
            for number, line in enumerate(sources.read(ROOT, path).splitlines(), 1)
            if len(line) > LINE_MAX]


def functions(text):
    """(name, first line, lines) of each function; its braces stand in the first column."""
    lines = sources.code_only(text).splitlines()
    for opening, line in enumerate(lines):
        if line != "{":
            continue
        first = opening
        while first > 0 and lines[first - 1].strip() and lines[first - 1][0] not in "#}":
            first -= 1
        head = " ".join(lines[first:opening])
        name = re.search(r"(\w+)\s*\(", head)
        closing = next((i for i in range(opening, len(lines)) if lines[i] == "}"), len(lines))
        # Without a name it is a namespace or a class of C++.
        if name:
            yield name[1], first + 1, closing - first + 1


def function_length():
    return [f"{path}:{line}: {name} has {length} lines, more than {FUNCTION_MAX}"
            for path in C_FILES
            for name, line, length in functions(sources.read(ROOT, path))
            if length > FUNCTION_MAX]


def file_length():
    problems = []
    for path in C_FILES:
        count = sources.read(ROOT, path).count("\n") - 1
        most = FILE_MAX_OF.get(path, FILE_MAX)
        if count > most:
            problems.append(f"{path}: {count} lines, more than {most}: split it")
    return problems


def head_of(path):
    """The first line but for the interpreter's and the licence's."""
    for line in sources.read(ROOT, path).splitlines():
        if not line.startswith("#!") and LICENCE not in line:
            return line
    return ""


def licence():
    paths = TEXT_FILES + sources.files(ROOT, (".pml", ".lua", ".java", ".js"))
    return [f"{path}: has no line '{LICENCE}' before its purpose" for path in paths
            if LICENCE not in "".join(sources.read(ROOT, path).splitlines(True)[:2])]


def folder_size():
    counts = {}
    for path in sources.files(ROOT, ("",)):
        if path.startswith(("src/", "exporter/", "torture/", "tests/chaos/")):
            folder = path.rpartition("/")[0]
            counts[folder] = counts.get(folder, 0) + 1
    return [f"{folder}: {count} files, more than {FOLDER_MAX}: divide it"
            for folder, count in counts.items() if count > FOLDER_MAX]


def purpose():
    problems = []
    for path in C_FILES + sources.files(ROOT, (".pml",)):
        first = head_of(path)
        if not re.match(r"/\* \S.{15,}", first):
            problems.append(f"{path}:1: does not begin with a comment that says what it is for")
    for path in sources.files(ROOT, (".py",)):
        if not re.match(r'(""")\S.{10,}', head_of(path)):
            problems.append(f"{path}:1: does not begin with a line that says what it is for")
    return problems


def calls(path, names):
    code = sources.code_only(sources.read(ROOT, path))
    pattern = r"(?<![\w.>])(" + "|".join(names) + r")\s*\("
    for match in re.finditer(pattern, code):
        yield sources.line_of(code, match.start()), match[1]


def banned_calls():
    return [f"{path}:{line}: {name}: {BANNED[name]}"
            for path in C_FILES for line, name in calls(path, BANNED)]


def no_sleeping():
    problems = [f"{path}:{line}: {name}: wait for what you wait for"
                for path in C_FILES for line, name in calls(path, SLEEPS)]
    problems += [f"{path}:{line}: {name}: let_pass_ms says what it is for"
                 for path in C_FILES if path.startswith("tests/") and path not in NANOSLEEP_IN
                 for line, name in calls(path, ("nanosleep", "clock_nanosleep"))]
    return problems


def environment_is_read_securely():
    """The library may be used by a set-user-ID program, whose caller must not choose the store."""
    library = ("src/base/", "src/core/", "src/net/", "src/engines/")
    return [f"{path}:{line}: {name}: say secure_getenv"
            for path in C_FILES if path.startswith(library)
            for line, name in calls(path, ("getenv",))]


def may_include(path, included):
    """Whether the file may include "included" (a name in quotes)."""
    room = path.split("/")
    if path.startswith("src/base/"):
        return included.startswith("base/") or "/" not in included
    if path.startswith("src/core/"):
        return included.startswith(("core/", "base/")) or included in ("engines.inc", "modules.inc")
    if path.startswith("src/holdfast/"):
        return included == "core/engine_module.h"
    if path.startswith("src/net/"):
        return included.startswith(("net/", "base/"))
    if path.startswith("src/engines/"):
        own = f"engines/{room[2]}/"
        contract = ("core/engine.h", "core/engine_sync.h", "core/known.h")
        rooms = ("base/", "net/", "engines/common/", own)
        if room[2] == "quorum":
            contract += ("engines/redis/sink.h",)
        if room[2] == "trace":
            contract += ("core/engine_tap.h",)
        return included.startswith(rooms) or included in contract or "/" not in included
    if path.startswith("exporter/"):
        return included in ("exporter.h", "page.inc", "cli/cli.h")
    if path.startswith("torture/command/"):
        return included.startswith("torture/") or included in ("command.h", "cli/cli.h")
    if path.startswith("torture/"):
        return included.startswith("torture/")
    if path.startswith("src/recipes/"):
        rooms = ("recipes/", "base/", "core/api/calls.h")
        return included.startswith(rooms) or "/" not in included
    if path == "src/cli/show/show_graph.c" and included in ("base/clock.h", "base/wait_graph.h"):
        return True
    if path.startswith(("src/cli/", "examples/")):
        return "/" not in included or included.startswith(f"{room[1]}/")
    if path.startswith("tests/conformance/"):
        return "/" not in included or included == "base/testing.h"
    return True


def include_directions():
    problems = []
    for path in C_FILES:
        text = sources.read(ROOT, path)
        for match in re.finditer(r'^#\s*include\s+"([^"]+)"', text, re.MULTILINE):
            if not may_include(path, match[1]):
                line = sources.line_of(text, match.start())
                problems.append(f'{path}:{line}: must not include "{match[1]}"')
    return problems


# What engines share, and the files that may still call it by themselves.
SHARED = {
    "hf__backoff_ms": ((), "peer.h has the pause after a failure, also for client libraries"),
    "hf__oneshot_remark": (("src/engines/quorum/",),
                           "say it by findings.h; a quorum passes on what its servers say"),
}


def engines_share_what_common_has():
    problems = []
    for path in C_FILES:
        if not path.startswith("src/engines/") or path.startswith("src/engines/common/"):
            continue
        problems += [f"{path}:{line}: {name}: {SHARED[name][1]}"
                     for line, name in calls(path, SHARED)
                     if not path.startswith(SHARED[name][0] or ("\0",))]
        code = sources.code_only(sources.read(ROOT, path))
        problems += [f"{path}:{sources.line_of(code, m.start())}: {m[1]}: engines/common has it"
                     for m in re.finditer(r"^static [\w ]+[ *](fact|danger|warn|begin_pause|"
                                          r"why_silent)\(", code, re.MULTILINE)]
    return problems


# Bits of an engine's own about what the store may have of a claim: core/known.h has them.
OWN_BITS = re.compile(r"\b(?!HF_)(?:\w+_)?(?:HOLDS|UNSURE|QUEUED|OUTSTANDING)\b|"
                      r"\b(?:\w+_)?(?:unsure|may_hold|may_be_done|outstanding)\b|->unknown\b")


def engines_know_claims_by_the_table():
    problems = []
    for path in C_FILES:
        # The embedded engine asks no server.
        if not path.startswith("src/engines/") or path.startswith("src/engines/local/"):
            continue
        code = sources.code_only(sources.read(ROOT, path))
        problems += [f"{path}:{sources.line_of(code, match.start())}: {match[0]}: "
                     "core/known.h knows what the store may have"
                     for match in OWN_BITS.finditer(code)]
    return problems


def names_are_those_of_few_functions():
    """A name is looked up in three files at most, also that of a function which fills a slot."""
    homes = {}
    for path in C_FILES:
        if path.startswith("src/"):
            for name, _, _ in functions(sources.read(ROOT, path)):
                homes.setdefault(name, set()).add(path)
    del homes["__attribute__"]
    vague = [f"{path}: {name} says nothing; name what it does"
             for name in VAGUE & homes.keys() for path in homes[name]]
    return vague + [f"{name} is a function of {len(paths)} files, more than {NAME_MAX}: "
                    f"{' '.join(sorted(paths))}"
                    for name, paths in sorted(homes.items()) if len(paths) > NAME_MAX]


def no_line_comments():
    problems = []
    for path in sources.files(ROOT, (".c", ".h", ".hpp")):
        text = re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"',
                      lambda m: re.sub(r"[^\n]", " ", m[0]), sources.read(ROOT, path),
                      flags=re.DOTALL)
        problems += [f"{path}:{sources.line_of(text, m.start())}: a // comment"
                     for m in re.finditer(r"//", text)]
    return problems


def nothing_unfinished():
    words = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX|HA" r"CK)\b|/ho" r"me/|/ro" r"ot/")
    return [f"{path}:{number}: {match[0]}"
            for path in TEXT_FILES
            for number, line in enumerate(sources.read(ROOT, path).splitlines(), 1)
            for match in [words.search(line)] if match]


def no_typedefs_inside():
    """Only the public header defines types by typedef; inside there are struct tags."""
    problems = []
    for path in C_FILES:
        if path in ("include/holdfast.h", "tests/conformance/frozen/holdfast.h"):
            continue
        code = sources.code_only(sources.read(ROOT, path))
        problems += [f"{path}:{sources.line_of(code, m.start())}: a typedef of a struct or enum"
                     for m in re.finditer(r"^\s*typedef\s+(?:struct|enum|union)\b", code,
                                          re.MULTILINE)]
    return problems


tap.run([
    ("lines_have_at_most_100_columns", line_length),
    ("functions_have_at_most_80_lines", function_length),
    ("files_are_not_too_long", file_length),
    ("folders_of_src_and_chaos_have_at_most_30_files", folder_size),
    ("files_begin_with_their_purpose", purpose),
    ("files_name_their_licence", licence),
    ("no_banned_calls", banned_calls),
    ("nobody_sleeps_to_wait", no_sleeping),
    ("library_reads_the_environment_by_secure_getenv", environment_is_read_securely),
    ("includes_point_the_right_way", include_directions),
    ("engines_share_what_common_has", engines_share_what_common_has),
    ("engines_know_claims_by_the_table", engines_know_claims_by_the_table),
    ("comments_are_block_comments", no_line_comments),
    ("struct_tags_and_no_typedefs", no_typedefs_inside),
    ("names_are_those_of_few_functions", names_are_those_of_few_functions),
    ("nothing_is_left_unfinished", nothing_unfinished),
])
