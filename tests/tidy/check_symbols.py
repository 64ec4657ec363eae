#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the shared library exports to programs is what the header declares, and to modules what they
use: all of it, and nothing else. It needs few libraries, and takes little of the room that
late-loaded libraries share."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

import tap

LIBRARY, HEADER, SCRIPT = sys.argv[1:4]
MODULES = sys.argv[4:]
TLS_BYTES_MAX = 64
PUBLIC, PRIVATE = "HOLDFAST_0.1", "HOLDFAST_PRIVATE_1"
# What the library itself is linked to, if engines with a server are modules.
NEEDED = {"libuv.so.1", "libc.so.6"}


def symbols(path, which):
    """Name and version of what an object exports ("--defined-only") or uses of others ("-u")."""
    if not shutil.which("nm"):
        raise tap.Skip("nm is not installed")
    listing = subprocess.run(["nm", "-D", which, path], check=True, capture_output=True,
                             text=True).stdout
    pairs = [line.split()[-1].partition("@") for line in listing.splitlines()]
    # A version is listed as a symbol too.
    return {(name, of.strip("@")) for name, _, of in pairs if not name.startswith("HOLDFAST_")}


def exported(version=PUBLIC):
    return {name for name, of in symbols(LIBRARY, "--defined-only") if of == version}


def declared():
    with open(HEADER, encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.DOTALL)
    return set(re.findall(r"HF_API\b[^;(]*?\b(hf_\w+)\s*\(", text))


def names():
    found = symbols(LIBRARY, "--defined-only")
    return [f"{name} is exported as {of}" for name, of in sorted(found)
            if not re.match({PUBLIC: "hf_[a-z]", PRIVATE: "hf__"}.get(of, f"{of}$"), name)]


def need_modules():
    if not MODULES:
        raise tap.Skip("this build has all engines in the library")


def modules_use_what_is_exported_to_them():
    need_modules()
    with open(SCRIPT, encoding="utf-8") as file:
        listed = set(re.findall(r"\bhf__\w+", file.read()))
    used = {name for path in MODULES for name, _ in symbols(path, "-u")
            if name.startswith("hf__")}
    return ([f"{name} is used by a module and not exported" for name in sorted(used - listed)] +
            [f"{name} is exported, and no module of this build uses it"
             for name in sorted(listed - used) if len(MODULES) == 6] +
            [f"{name} is listed and not there" for name in sorted(listed - exported(PRIVATE))])


def modules_export_one_symbol():
    need_modules()
    return [f"{path} exports {name}" for path in MODULES
            for name, _ in sorted(symbols(path, "--defined-only"))
            if name != "hf_engine_module_v1"]


def libraries_are_few():
    need_modules()
    if not shutil.which("readelf"):
        raise tap.Skip("readelf is not installed")
    listing = subprocess.run(["readelf", "-dW", LIBRARY], check=True, capture_output=True,
                             text=True).stdout
    needed = set(re.findall(r"\(NEEDED\)[^[]*\[(.+)\]", listing))
    if not needed:
        return ["the library needs no library at all?"]
    loader = {name for name in needed if name.startswith("ld-linux")}
    return [f"the library needs {name}" for name in sorted(needed - NEEDED - loader)]


def all_declared_are_exported():
    if not declared():
        return [f"{HEADER} declares nothing?"]
    return [f"{name} is declared and not exported" for name in sorted(declared() - exported())]


def all_exported_are_declared():
    return [f"{name} is exported and not declared" for name in sorted(exported() - declared())]


def packages_list_what_is_exported():
    """Since when each function has been there, for dependencies between packages of Debian."""
    root = os.path.dirname(os.path.dirname(HEADER))
    with open(os.path.join(root, "debian/libholdfast0.symbols"), encoding="utf-8") as file:
        listed = set(re.findall(rf"^ (hf_\w+)@{PUBLIC} ", file.read(), re.MULTILINE))
    return ([f"add to debian/libholdfast0.symbols: {name}@{PUBLIC} and the version to come"
             for name in sorted(declared() - listed)] +
            [f"debian/libholdfast0.symbols has {name}, and {HEADER} has not"
             for name in sorted(listed - declared())])


def thread_variables_are_few():
    """The loader takes all of a library's thread variables out of one room if any is near."""
    if not shutil.which("readelf"):
        raise tap.Skip("readelf is not installed")
    listing = subprocess.run(["readelf", "-lW", LIBRARY], check=True, capture_output=True,
                             text=True).stdout
    rows = [line.split() for line in listing.splitlines()]
    sizes = [int(row[5], 16) for row in rows if row[:1] == ["TLS"]]
    if not sizes:
        return ["the library has no segment for thread variables?"]
    return [f"thread variables take {size} bytes, more than {TLS_BYTES_MAX}" for size in sizes
            if size > TLS_BYTES_MAX]


def five_copies_load_in_one_process():
    """Late, and each as a library of its own, as packages with a copy of their own load it."""
    if any(name.startswith(("__asan_", "__tsan_")) for name, _ in symbols(LIBRARY, "-u")):
        raise tap.Skip("a sanitizer's library loads first or not at all")
    loads = "import ctypes, sys; print(len({ctypes.CDLL(path)._handle for path in sys.argv[1:]}))"
    with tempfile.TemporaryDirectory() as directory:
        copies = [shutil.copy(LIBRARY, f"{directory}/{number}.so") for number in range(5)]
        done = subprocess.run([sys.executable, "-c", loads, *copies], check=False, text=True,
                              capture_output=True)
    return [] if done.stdout == "5\n" else [done.stdout + done.stderr]


tap.run([
    ("exports_begin_with_hf_", names),
    ("what_is_declared_is_exported", all_declared_are_exported),
    ("what_is_exported_is_declared", all_exported_are_declared),
    ("packages_list_what_is_exported", packages_list_what_is_exported),
    ("modules_use_what_is_exported_to_them", modules_use_what_is_exported_to_them),
    ("modules_export_one_symbol", modules_export_one_symbol),
    ("library_needs_libuv_and_libc_alone", libraries_are_few),
    ("thread_variables_take_at_most_64_bytes", thread_variables_are_few),
    ("five_copies_load_in_one_process", five_copies_load_in_one_process),
])
