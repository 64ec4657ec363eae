#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The public headers compile by themselves, as old C and old C++, with every compiler there is."""

import os
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


tap.run([("exceptions_that_are_off_are_named", exceptions_that_are_off_are_named),
         ("an_ignored_answer_is_warned_of", an_ignored_answer_is_warned_of)]
        + [(f"{os.path.basename(case[2])}_with_{case[0]}_{case[1]}",
            lambda case=case: compiles(*case)) for case in CASES])
