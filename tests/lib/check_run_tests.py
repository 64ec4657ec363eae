#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tools/run-tests makes of programs that fail: who is late may try again, who is wrong not."""

import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tidy"))
import tap  # noqa: E402

RUN_TESTS = pathlib.Path(__file__).resolve().parent.parent.parent / "tools" / "run-tests"
LATE = "# test.c:7: still not so after 5000 ms: it has come"
WRONG = "# test.c:7: inside: got 2, wanted 1"
WRONG_CODE = "# test.c:7: hf_lock: got HF_UNREACHABLE, wanted HF_LOST"

# Fails with a sentence as often as a number says, and is right then; counts its runs in a file.
# What else it is to do: "abort", "skip" (once it is right), or "kill" meson, which is its parent.
PROGRAM = """
import os, pathlib, signal, sys
name, times, sentence, deed = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
runs = pathlib.Path(os.environ["RUNS"]) / name
runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
if deed == "kill":
    os.kill(os.getppid(), signal.SIGKILL)
if len(runs.read_text()) > times:
    print("1..0 # SKIP there is no server" if deed == "skip" else "1..1\\nok 1 - a test")
    sys.exit()
print("1..1")
print(sentence.replace("; ", "\\n"))
print("not ok 1 - a test", flush=True)
if deed == "abort":
    os.abort()
sys.exit(1)
"""

ALWAYS = 100


def run(*programs):
    """Each is a name, how often it fails, what it says and what else it does; answers the last
    line, all that was said, how often each ran, and the status."""
    with tempfile.TemporaryDirectory() as directory:
        root = pathlib.Path(directory)
        (root / "program.py").write_text(PROGRAM)
        lines = ["project('p')", "python = find_program('python3')"]
        for name, times, sentence, deed in programs:
            lines.append(f"test('{name}', python, args: [files('program.py'), '{name}', "
                         f"'{times}', '{sentence}', '{deed}'], protocol: 'tap', suite: 'some',"
                         f"is_parallel: false, priority: {-len(lines)})")
        (root / "meson.build").write_text("\n".join(lines) + "\n")
        (root / "runs").mkdir()
        subprocess.run(["meson", "setup", root / "build", root], check=True, timeout=60,
                       stdout=subprocess.DEVNULL)
        done = subprocess.run([RUN_TESTS, root / "build"], capture_output=True, text=True,
                              timeout=60, check=False,
                              env={**os.environ, "RUNS": str(root / "runs")})
        files = [root / "runs" / name for name, *_ in programs]
        ran = [len(each.read_text()) if each.exists() else 0 for each in files]
        return done.stdout.splitlines()[-1], done.stdout, ran, done.returncode


def judge(wanted, ran, code, *programs):
    last, text, really_ran, really_code = run(*programs)
    if (last, really_ran, really_code) == (wanted, ran, code):
        return []
    return [f"{last}, ran {really_ran}, status {really_code}; wanted {wanted}, {ran}, {code}",
            *text.splitlines()]


def late_once_is_skipped_and_shown():
    last, text, ran, code = run(("late", 1, LATE, ""), ("good", 0, "", ""))
    right = last == "1 passed, 0 failed, 1 skipped" and ran == [4, 1] and code == 0
    return [] if right and "UNSTEADY" in text and LATE in text else [text]


def late_twice_is_failed():
    return judge("1 passed, 1 failed, 0 skipped", [2, 1], 1,
                 ("late", 2, LATE, ""), ("good", 0, "", ""))


def wrong_is_failed_at_once():
    return judge("0 passed, 1 failed, 0 skipped", [1], 1, ("wrong", 1, WRONG, ""))


def a_wrong_code_is_failed_at_once():
    return judge("0 passed, 1 failed, 0 skipped", [1], 1, ("wrong", 1, WRONG_CODE, ""))


def wrong_after_late_is_failed_at_once():
    return judge("0 passed, 1 failed, 0 skipped", [1], 1, ("wrong", 1, f"{LATE}; {WRONG}", ""))


def wrong_before_late_is_failed_at_once():
    return judge("0 passed, 1 failed, 0 skipped", [1], 1, ("wrong", 1, f"{WRONG}; {LATE}", ""))


def another_failure_after_late_is_failed_at_once():
    return judge("0 passed, 1 failed, 0 skipped", [1], 1, ("other", 1, f"{LATE}; # lost it", ""))


def a_hang_is_failed_at_once():
    return judge("0 passed, 1 failed, 0 skipped", [1], 1, ("hang", 1, f"{LATE}; # timed out", ""))


def a_crash_is_failed_at_once():
    return judge("0 passed, 1 failed, 0 skipped", [1], 1, ("crash", 1, LATE, "abort"))


def late_beside_wrong_is_failed_at_once():
    return judge("0 passed, 2 failed, 0 skipped", [1, 1], 1,
                 ("late", 1, LATE, ""), ("wrong", 1, WRONG, ""))


def who_skips_when_tried_again_is_failed():
    return judge("0 passed, 1 failed, 0 skipped", [4], 1, ("late", 1, LATE, "skip"))


def three_that_are_late_are_failed():
    return judge("0 passed, 3 failed, 0 skipped", [1, 1, 1], 1,
                 *((name, 1, LATE, "") for name in ("one", "two", "three")))


def what_never_ran_is_failed():
    last, text, ran, code = run(("late", 1, LATE, ""), ("killer", 0, "", "kill"),
                                ("wrong", 1, WRONG, ""))
    return [] if " 0 failed" not in last and ran[2] == 0 and code == 1 else [text]


def what_never_ran_is_failed_beside_one_that_was_late():
    # So long that meson has written it down when it is killed.
    return judge("0 passed, 2 failed, 0 skipped", [1, 1, 0], 1,
                 ("late", 1, f"# {'much ' * 4000}; {LATE}", ""), ("killer", 0, "", "kill"),
                 ("wrong", 1, WRONG, ""))


tap.run([(check.__name__.replace("_", " "), check) for check in (
    late_once_is_skipped_and_shown, late_twice_is_failed, wrong_is_failed_at_once,
    a_wrong_code_is_failed_at_once, wrong_after_late_is_failed_at_once,
    wrong_before_late_is_failed_at_once, another_failure_after_late_is_failed_at_once,
    a_hang_is_failed_at_once, a_crash_is_failed_at_once,
    late_beside_wrong_is_failed_at_once, who_skips_when_tried_again_is_failed,
    three_that_are_late_are_failed, what_never_ran_is_failed,
    what_never_ran_is_failed_beside_one_that_was_late)])
