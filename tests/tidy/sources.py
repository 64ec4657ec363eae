# SPDX-License-Identifier: Apache-2.0
"""The project's own files, and C text without comments and strings."""

import os
import re

FOLDERS = ("include", "src", "exporter", "torture", "tests", "examples", "models", "tools", "bench",
           "docs", "bindings")
C_ENDINGS = (".c", ".h", ".cpp", ".hpp")

_TOKEN = re.compile(
    r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


def files(root, endings):
    """Paths below the root, relative to it, in order."""
    found = []
    for folder in FOLDERS:
        for path, folders, names in os.walk(os.path.join(root, folder)):
            folders[:] = sorted(f for f in folders if f != "__pycache__")
            found += [os.path.relpath(os.path.join(path, name), root)
                      for name in sorted(names) if name.endswith(endings)]
    return found


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def code_only(text):
    """Comments and strings become blanks; the lines stay where they are."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match[0])
    return _TOKEN.sub(blank, text)


def line_of(text, position):
    return text.count("\n", 0, position) + 1
