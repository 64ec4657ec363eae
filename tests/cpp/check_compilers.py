# SPDX-License-Identifier: Apache-2.0
"""holdfast.hpp with each compiler that is installed, in each standard. Prints TAP.

usage: check_compilers.py SOURCE LIBRARY TESTING_LIBRARY
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE, LIBRARY, TESTING = (pathlib.Path(word).resolve() for word in sys.argv[1:])
STANDARDS, RUN = ("c++17", "c++20", "c++2b"), "c++20"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
INCLUDES = ["-isystem", str(SOURCE / "tests/lib"), f"-I{SOURCE}/include"]
TESTS = [SOURCE / "tests/cpp" / name for name in
         ("second_unit.cpp", "test_cpp.cpp", "test_cpp20.cpp", "test_recipes.cpp")]
MORE = [SOURCE / "examples/box_office.cpp", SOURCE / "tests/unit/test_header.cpp"]
# Of one command, on a machine that does much else.
PATIENCE = 600 * int(os.environ.get("HOLDFAST_TEST_SLOW", "1"))


def compilers():
    """Each once, though one may have several names."""
    found = {}
    for folder in os.environ["PATH"].split(os.pathsep):
        for path in sorted(pathlib.Path(folder).glob("*++*")):
            if re.fullmatch(r"(g|clang)\+\+(-[0-9]+)?", path.name) and "ccache" not in folder:
                found.setdefault(os.path.realpath(path), path.name)
    return sorted(found.values())


def run(command, directory):
    done = subprocess.run(command, cwd=directory, timeout=PATIENCE, text=True, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))}\n{done.stdout}")
    return done.stdout


def compile_alone(base, directory):
    for source in [*TESTS, *MORE]:
        run([*base, "-fsyntax-only", source], directory)


def build_and_run(base, directory):
    """Returns how many tests have passed."""
    library = [LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}", "-pthread"]
    run([*base, *TESTS, "-o", "tests", f"-Wl,--whole-archive,{TESTING},--no-whole-archive",
         *library], directory)
    run([*base, MORE[0], "-o", "example", *library], directory)
    os.mkdir(f"{directory}/store", 0o700)
    said = run(["./tests"], directory)
    run(["env", f"HOLDFAST_DIR={directory}/store", "./example"], directory)
    return len(re.findall("^ok ", said, re.MULTILINE))


def play(compiler, standard):
    """What it has shown."""
    with tempfile.TemporaryDirectory() as directory:
        base = [compiler, f"-std={standard}", *WARNINGS, *INCLUDES]
        compile_alone(base, directory)
        if standard != RUN:
            return "compiles"
        return f"compiles, and {build_and_run(base, directory)} tests pass"


def main():
    pairs = [(compiler, standard) for compiler in compilers() for standard in STANDARDS]
    if not pairs:
        print("1..0 # SKIP no C++ compiler is installed")
        return
    print(f"1..{len(pairs)}")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        plays = [pool.submit(play, *pair) for pair in pairs]
        for number, (pair, ended) in enumerate(zip(pairs, plays), 1):
            word, what = "ok", ""
            try:
                what = ended.result()
            except (AssertionError, subprocess.SubprocessError) as why:
                print("\n".join("# " + line for line in str(why).split("\n")))
                word, what = "not ok", "does not compile, or fails"
            print(f"{word} {number} - {pair[0]} as {pair[1]}: {what}", flush=True)


main()
