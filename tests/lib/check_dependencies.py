# SPDX-License-Identifier: Apache-2.0
"""`make` says which packages are missing; only `make deps` installs them. Prints TAP."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = ROOT / "tools/install-dependencies"
BASH = shutil.which("bash")


def run(arguments, tools=(), environment=None):
    """Runs the program where only these commands exist: status, errors, what apt-get was asked."""
    with tempfile.TemporaryDirectory() as directory:
        place = pathlib.Path(directory)
        asked = place / "asked"
        for name in ("apt-get", "sudo"):
            (place / name).write_text(f'#!{BASH}\necho "{name} $*" >>{asked}\n', encoding="utf-8")
            (place / name).chmod(0o755)
        (place / "id").write_text(f"#!{BASH}\necho 1000\n", encoding="utf-8")
        (place / "id").chmod(0o755)
        for name in tools:
            os.symlink("/bin/true", place / name)
        done = subprocess.run([BASH, str(PROGRAM), *arguments], text=True, capture_output=True,
                              check=False, timeout=60,
                              env={"PATH": directory, **(environment or {})})
        return done.returncode, done.stderr, asked.read_text("utf-8") if asked.exists() else ""


def what_is_missing_is_listed_and_not_installed():
    status, said, asked = run(["--look", "build"])
    assert status == 1, status
    assert "missing: gcc" in said and "meson" in said and "'make deps'" in said, said
    assert asked == "", asked


def optional_parts_are_named_and_do_not_fail():
    status, said, asked = run(["--look", "build"],
                              ["cc", "meson", "ninja", "pkg-config"])
    assert status == 0, said
    assert "scdoc" in said and "missing:" not in said, said
    assert asked == "", asked


def another_compiler_is_one():
    _, said, _ = run(["--look", "build"], ["clang"], {"CC": "clang -m64"})
    assert "gcc" not in said, said


def deps_installs_what_is_missing():
    status, said, asked = run(["build"], ["cc", "ninja", "pkg-config"])
    assert status == 0, said
    words = asked.split()
    assert "meson" in words and "scdoc" in words and "ninja-build" not in words, asked


TESTS = [what_is_missing_is_listed_and_not_installed, optional_parts_are_named_and_do_not_fail,
         another_compiler_is_one, deps_installs_what_is_missing]


def main():
    failed = 0
    print(f"1..{len(TESTS)}", flush=True)
    for number, test in enumerate(TESTS, 1):
        try:
            test()
            print(f"ok {number} - {test.__name__}", flush=True)
        except (AssertionError, subprocess.SubprocessError) as error:
            failed += 1
            print(f"# {error}\nnot ok {number} - {test.__name__}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
