#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every list of mutants, also those that are run on demand only, fits the code as it is."""

import importlib.machinery
import importlib.util
import pathlib
import sys

import tap

ROOT = pathlib.Path(sys.argv[1])
LISTS = ROOT / "tests/mutants"


def load(path):
    """A program as a module; it leaves no compiled copy beside itself."""
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("program", str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("program", loader))
    loader.exec_module(module)
    return module


def problems_of(program, path):
    try:
        mutants = program.read_list(path)
    except program.Broken as reason:
        return [str(reason)]
    problems = []
    for mutant in mutants:
        try:
            program.change(ROOT, mutant)
        except (program.Broken, OSError) as reason:
            problems.append(str(reason))
    return problems


def what_is_to_be_broken_is_there_once():
    program = load(ROOT / "tools/run-mutants")
    return [problem for path in sorted(LISTS.rglob("*.list"))
            for problem in problems_of(program, path)]


def what_the_check_tries_is_in_the_lists():
    program = load(ROOT / "tools/run-mutants")
    mutants = [mutant for path in sorted(LISTS.glob("*.list"))
               for mutant in program.read_list(path)]
    try:
        program.choose(mutants, program.read_names(program.IN_CHECK))
    except program.Broken as reason:
        return [str(reason)]
    return []


tap.run([(check.__name__, check) for check in [what_is_to_be_broken_is_there_once,
                                               what_the_check_tries_is_in_the_lists]])
