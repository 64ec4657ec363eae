#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The documentation site can be made, has a page for each function, and no link is dead."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import sources
import tap

ROOT = sys.argv[1]


def site_is_complete_without_dead_links():
    for program in ("mkdocs", "scdoc", "groff"):
        if not shutil.which(program):
            raise tap.Skip(f"there is no {program}: tools/install-dependencies site installs it")
    with tempfile.TemporaryDirectory() as folder:
        made = subprocess.run([f"{ROOT}/tools/make-site", folder], capture_output=True, text=True,
                              check=False)
        if made.returncode:
            return (made.stdout + made.stderr).splitlines()
        pages = pathlib.Path(folder, "html")
        wanted = {f"api/{name}.html" for name in functions()}
        wanted |= {"index.html", "search/search_index.json", "man/holdfast.1.html"}
        return [f"there is no {page}" for page in sorted(wanted) if not (pages / page).exists()]


def functions():
    """Each name before a parenthesis that follows HF_API."""
    text = sources.code_only(sources.read(ROOT, "include/holdfast.h"))
    return [re.search(r"\b(hf_\w+)\s*\(", part)[1] for part in text.split("\nHF_API ")[1:]]


tap.run([("site_is_complete_without_dead_links", site_is_complete_without_dead_links)])
