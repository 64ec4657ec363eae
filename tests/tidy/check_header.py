#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The public headers compile by themselves, as old C and old C++, with every compiler there is."""

import os
import re
import shutil
import subprocess
import sys

import tap

ROOT = sys.argv[1]
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wundef", "-Wshadow"]
# The header is reached by -I, so a C++ program's warnings are about it, too.
CPP_WARNINGS = ["-Wold-style-cast", "-Wuseless-cast", "-Wconversion"]
CASES = [
    (compiler, standard, os.path.join(ROOT, "tests", source))
    for source, compilers, standards in (
        ("unit/test_header.c", ("gcc", "clang"), ("c99", "c11", "c17")),
        ("unit/test_header.cpp", ("g++", "clang++"), ("c++11", "c++17", "c++20")),
        ("cpp/second_unit.cpp", ("g++", "clang++"), ("c++17", "c++20", "c++2b")),
    )
    for compiler in compilers
    for standard in standards
]


def compiles(compiler, standard, source):
    if not shutil.which(compiler):
        raise tap.Skip(f"{compiler} is not installed")
    include = os.path.join(ROOT, "include")
    warnings = WARNINGS + (CPP_WARNINGS if source.endswith(".cpp") else [])
    if compiler == "clang++":
        warnings.remove("-Wuseless-cast")
    result = subprocess.run(
        [compiler, f"-std={standard}", *warnings, f"-I{include}", "-fsyntax-only", source],
        capture_output=True, text=True, timeout=120)
    return result.stderr.splitlines()[:10] if result.returncode else []


def an_ignored_answer_is_warned_of():
    if not shutil.which("gcc"):
        raise tap.Skip("gcc is not installed")
    program = """#include <holdfast.h>
void f(hf_client *c, hf_hold **h) { hf_lock(c, "n", 0, 0, h); }
"""
    result = subprocess.run(
        ["gcc", *WARNINGS, f"-I{os.path.join(ROOT, 'include')}", "-c", "-o", "/dev/null", "-x", "c",
         "-"],
        input=program, capture_output=True, text=True, timeout=120)
    return [] if "unused-result" in result.stderr else ["gcc says nothing of it"]


def exceptions_that_are_off_are_named():
    if not shutil.which("g++"):
        raise tap.Skip("g++ is not installed")
    result = subprocess.run(
        ["g++", "-std=c++17", "-fno-exceptions", f"-I{os.path.join(ROOT, 'include')}",
         "-fsyntax-only", os.path.join(ROOT, "tests/cpp/second_unit.cpp")],
        capture_output=True, text=True, timeout=120)
    return [] if "compile without -fno-exceptions" in result.stderr else [result.stderr[:300]]


def structures_that_begin_with_their_size_may_grow():
    """The comparison of binary interfaces lets those grow, and no others."""
    with open(os.path.join(ROOT, "include/holdfast.h"), encoding="utf-8") as file:
        header = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.DOTALL)
    with open(os.path.join(ROOT, "tools/abi.suppressions"), encoding="utf-8") as file:
        allowed = set(re.search(r"\^hf_\((.*?)\)\$", file.read())[1].split("|"))
    sized = set(re.findall(r"typedef struct hf_(\w+) \{\s*size_t size;", header))
    return ([f"hf_{name}: not in tools/abi.suppressions" for name in sorted(sized - allowed)]
            + [f"hf_{name}: does not begin with its size" for name in sorted(allowed - sized)])


tap.run([("exceptions_that_are_off_are_named", exceptions_that_are_off_are_named),
         ("an_ignored_answer_is_warned_of", an_ignored_answer_is_warned_of),
         ("structures_that_begin_with_their_size_may_grow",
          structures_that_begin_with_their_size_may_grow)]
        + [(f"{os.path.basename(case[2])}_with_{case[0]}_{case[1]}",
            lambda case=case: compiles(*case)) for case in CASES])
