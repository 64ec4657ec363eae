#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The programs of docs/bindings.md in other languages lock: test_bindings.py LIBRARY"""

import os
import pathlib
import re
import subprocess
import sys

from sides import PATIENCE, equal, need, run, scratch

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = pathlib.Path(sys.argv[1]).resolve()
# Of compilers with empty caches, on a machine that does much else.
BUILD_PATIENCE = 15 * PATIENCE


def program(language, first):
    """The block of code in this language that begins with this line."""
    page = (ROOT / "docs/bindings.md").read_text(encoding="utf-8")
    blocks = re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return next(block for block in blocks if block.startswith(first + "\n"))


def locks(directory, *command):
    store = directory / "store"
    store.mkdir(mode=0o700)
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE,
                          env={**os.environ, "HOLDFAST_URL": f"local://{store}",
                               "LD_LIBRARY_PATH": str(LIBRARY.parent)}).stdout
    equal(re.sub("[0-9]+$", "N", said.strip()), "orders/42 is mine, fencing token N", "the output")


def build(command, directory, **environment):
    made = subprocess.run(command, cwd=directory, env={**os.environ, **environment}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=BUILD_PATIENCE)
    equal((made.returncode, made.stdout), (0, made.stdout), " ".join(command))


def ctypes_program_locks(directory):
    (directory / "program.py").write_text(program("python", "import ctypes"))
    locks(directory, sys.executable, str(directory / "program.py"))


def program_of_go_locks(directory):
    need("go", "pkg-config")
    (directory / "main.go").write_text(program("go", "package main"))
    (directory / "go.mod").write_text("module example.org/user\n\ngo 1.19\n")
    (directory / "holdfast.pc").write_text(
        "Name: holdfast\nDescription: locks\nVersion: 0\n"
        f"Cflags: -I{ROOT}/include\nLibs: -L{LIBRARY.parent} -lholdfast\n")
    build(["go", "build", "-o", "program", "."], directory, CGO_ENABLED="1", GOTOOLCHAIN="local",
          PKG_CONFIG_PATH=str(directory), CC="cc")
    locks(directory, str(directory / "program"))


def program_of_rust_locks(directory):
    need("rustc")
    (directory / "main.rs").write_text(
        program("rust", "use std::ffi::{c_char, c_int, c_void, CStr};"))
    build(["rustc", "--edition=2021", "-Dwarnings", "-Adead_code", "-L", str(LIBRARY.parent),
           "-o", "program", "main.rs"], directory)
    locks(directory, str(directory / "program"))


def main():
    def play(test):
        with scratch() as directory:
            test(pathlib.Path(directory))
    return run([(test.__name__, test) for test in
                (ctypes_program_locks, program_of_go_locks, program_of_rust_locks)], play)


sys.exit(main())
