#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every list of mutants, also those that are run on demand only, fits the code as it is."""

import concurrent.futures
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import shlex
import subprocess
import sys

import tap

ROOT = pathlib.Path(sys.argv[1])
BUILD = pathlib.Path(sys.argv[2])
LISTS = ROOT / "tests/mutants"
# The next word says where a result of a compilation goes.
OUTPUTS = ("-o", "-MF", "-MQ")
STRICT = [f"-Werror={what}" for what in
          ("implicit-function-declaration", "int-conversion", "incompatible-pointer-types")]


def load(path):
    """A program as a module; it leaves no compiled copy beside itself."""
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("program", str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("program", loader))
    loader.exec_module(module)
    return module


def problems_of(program, path, markers):
    try:
        mutants = program.read_list(path)
    except program.Broken as reason:
        return [str(reason)]
    problems = []
    for mutant in mutants:
        try:
            program.change(ROOT, mutant, markers)
        except (program.Broken, OSError) as reason:
            problems.append(str(reason))
    return problems


def each_mutant_has_its_marker_once():
    program = load(ROOT / "tools/run-mutants")
    try:
        markers = program.find_markers(ROOT)
    except program.Broken as reason:
        return [str(reason)]
    return [problem for path in sorted(LISTS.rglob("*.list"))
            for problem in problems_of(program, path, markers)]


def each_marker_has_a_mutant():
    program = load(ROOT / "tools/run-mutants")
    try:
        used = {mutant["at"] for path in LISTS.rglob("*.list")
                for mutant in program.read_list(path)}
        return [f"{path}: no mutant is at the marker {name}"
                for name, (path, _) in program.find_markers(ROOT).items() if name not in used]
    except program.Broken as reason:
        return [str(reason)]


def what_the_check_tries_is_in_the_lists():
    program = load(ROOT / "tools/run-mutants")
    mutants = [mutant for path in sorted(LISTS.glob("*.list"))
               for mutant in program.read_list(path)]
    try:
        program.choose(mutants, program.read_names(program.IN_CHECK))
    except program.Broken as reason:
        return [str(reason)]
    return []


def compile_commands():
    """For each file how the build compiles it, without the results."""
    found = {}
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        found[os.path.normpath(BUILD / entry["file"])] = [
            word for before, word in zip(["", *words], words)
            if before not in OUTPUTS and word not in (*OUTPUTS, "-c", "-MD", "-Werror", "ccache",
                                                      entry["file"])]
    return found


def each_mutant_compiles():
    """One that does not is caught by no test. Those of headers, scripts and SQL are not tried."""
    program = load(ROOT / "tools/run-mutants")
    markers, commands = program.find_markers(ROOT), compile_commands()

    def problem_of(mutant):
        path, _, after = program.change(ROOT, mutant, markers)
        if str(path) not in commands:
            return None
        done = subprocess.run([*commands[str(path)], *STRICT, f"-I{path.parent}",
                               "-fsyntax-only", "-xc", "-"], cwd=BUILD, input=after, text=True,
                              capture_output=True, check=False)
        return f"{mutant['where']}: {mutant['name']}: {done.stderr}" if done.returncode else None

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [problem for problem in pool.map(problem_of, [
            mutant for path in sorted(LISTS.rglob("*.list")) for mutant in program.read_list(path)])
            if problem]


tap.run([(check.__name__, check) for check in [
    each_mutant_has_its_marker_once, each_marker_has_a_mutant,
    what_the_check_tries_is_in_the_lists, each_mutant_compiles]])
