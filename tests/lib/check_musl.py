# SPDX-License-Identifier: Apache-2.0
"""On musl, the library and the command compile, and variables of threads let a program load the
library late. Prints TAP.

usage: check_musl.py BUILD SOURCE
"""

import concurrent.futures
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

BUILD, SOURCE = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
# Headers of the libraries and of the kernel, behind musl's own.
HEADERS = ["-idirafter", "/usr/include", "-idirafter", "/usr/include/x86_64-linux-gnu"]
OURS = ("src/libholdfast.so", "src/holdfast/", "src/cli/", "torture/holdfast-torture.p/",
        "bindings/python/")
LATE = """
#include "base/thread_local.h"
static _Thread_local int number HF_THREAD_LOCAL_NEAR = 7;
int late_number(void) { return number++; }
"""
LOADER = """
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **words)
{
    void *library = count > 1 ? dlopen(words[1], RTLD_NOW) : NULL;
    int (*number)(void) = library ? (int (*)(void))dlsym(library, "late_number") : NULL;
    if (!number)
        puts(dlerror());
    return number && number() == 7 ? 0 : 1;
}
"""


def compile_alone(command):
    """What the compiler has against one file."""
    words, kept, skip = shlex.split(command["command"]), [], False
    for word in words:
        if skip or word in ("-MD", "-c") or word.endswith("ccache"):
            skip = False
            continue
        skip = word in ("-MQ", "-MF", "-o")
        if not skip and not word.startswith(("-W", "-fsanitize", "-Db_")):
            kept.append(word)
    done = subprocess.run(["musl-gcc", "-fsyntax-only", *kept[1:], *HEADERS, "-Wno-cpp",
                           "-Werror=implicit-function-declaration"],
                          cwd=command["directory"], check=False, capture_output=True, text=True)
    return f"{command['file']}: {done.stderr[:300]}" if done.returncode else ""


def all_sources_compile():
    with open(BUILD / "compile_commands.json", encoding="utf-8") as file:
        commands = [one for one in json.load(file) if one["output"].startswith(OURS)]
    assert len(commands) > 200, f"{len(commands)} files are too few"
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        failures = list(filter(None, pool.map(compile_alone, commands)))
    assert not failures, "\n".join(failures)


def library_with_variables_of_threads_is_loaded_late():
    named = [path.name for path in SOURCE.glob("src/**/*.[ch]")
             if "tls_model" in path.read_text(encoding="utf-8")]
    assert named == ["thread_local.h"], named
    with tempfile.TemporaryDirectory() as directory:
        place = pathlib.Path(directory)
        (place / "late.c").write_text(LATE, encoding="utf-8")
        (place / "loader.c").write_text(LOADER, encoding="utf-8")
        for words in (["-shared", "-fPIC", f"-I{SOURCE}/src", "late.c", "-o", "late.so"],
                      ["loader.c", "-o", "loader"]):
            subprocess.run(["musl-gcc", *words], cwd=place, check=True)
        done = subprocess.run([place / "loader", place / "late.so"], check=False, text=True,
                              capture_output=True)
        assert done.returncode == 0, done.stdout


def main():
    if not shutil.which("musl-gcc"):
        print("1..0 # SKIP there is no musl-gcc")
        return
    tests = [all_sources_compile, library_with_variables_of_threads_is_loaded_late]
    print(f"1..{len(tests)}")
    for i, test in enumerate(tests, 1):
        try:
            test()
            print(f"ok {i} - {test.__name__}")
        except (AssertionError, subprocess.CalledProcessError) as why:
            print("\n".join("# " + line for line in str(why).split("\n")))
            print(f"not ok {i} - {test.__name__}")


main()
