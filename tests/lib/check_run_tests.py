#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tools/run-tests makes of programs that fail: a late one may try again, a wrong one not."""

import contextlib
import importlib.machinery
import importlib.util
import io
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

# Each case: the last line that is wanted, how often its programs ran, the status; the programs,
# each with a name, how often it fails, what it says and what else it does.
CASES = {
    "late_once_is_skipped_and_shown": (
        "1 passed, 0 failed, 1 skipped", [4, 1], 0, ("late", 1, LATE, ""), ("good", 0, "", "")),
    "late_twice_is_failed": (
        "1 passed, 1 failed, 0 skipped", [2, 1], 1, ("late", 2, LATE, ""), ("good", 0, "", "")),
    "wrong_is_failed_at_once": (
        "0 passed, 1 failed, 0 skipped", [1], 1, ("wrong", 1, WRONG, "")),
    "late_beside_wrong_is_failed_at_once": (
        "0 passed, 2 failed, 0 skipped", [1, 1], 1,
        ("late", 1, LATE, ""), ("wrong", 1, WRONG, "")),
    "late_that_skips_when_tried_again_is_failed": (
        "0 passed, 1 failed, 0 skipped", [4], 1, ("late", 1, LATE, "skip")),
    "three_that_are_late_are_failed": (
        "0 passed, 3 failed, 0 skipped", [1, 1, 1], 1,
        *((name, 1, LATE, "") for name in ("one", "two", "three"))),
    # Whether meson has written down the late one before it is killed is open.
    "what_never_ran_is_failed": (
        None, [1, 1, 0], 1,
        ("late", 1, LATE, ""), ("killer", 0, "", "kill"), ("wrong", 1, WRONG, "")),
    # So long that meson has.
    "what_never_ran_is_failed_beside_one_that_was_late": (
        "0 passed, 2 failed, 0 skipped", [1, 1, 0], 1,
        ("late", 1, f"# {'much ' * 4000}; {LATE}", ""), ("killer", 0, "", "kill"),
        ("wrong", 1, WRONG, "")),
}

# What is wrong, as it is told apart from what is late alone: how each ends. One run has them all.
WRONG_WAYS = {
    "a_wrong_code_is_wrong": (WRONG_CODE, ""),
    "wrong_after_late_is_wrong": (f"{LATE}; {WRONG}", ""),
    "wrong_before_late_is_wrong": (f"{WRONG}; {LATE}", ""),
    "another_failure_after_late_is_wrong": (f"{LATE}; # lost it", ""),
    "a_hang_is_wrong": (f"{LATE}; # timed out", ""),
    "a_crash_is_wrong": (LATE, "abort"),
}


def load_run_tests():
    loader = importlib.machinery.SourceFileLoader("run_tests", str(RUN_TESTS))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_tests", loader))
    loader.exec_module(module)
    return module


def set_up(root):
    """One project has the programs of all cases: each case is a suite."""
    (root / "program.py").write_text(PROGRAM)
    lines = ["project('p')", "python = find_program('python3')"]
    for case, (_, _, _, *programs) in CASES.items():
        for name, times, sentence, deed in programs:
            lines.append(f"test('{case}-{name}', python, args: [files('program.py'), "
                         f"'{case}-{name}', '{times}', '{sentence}', '{deed}'], protocol: 'tap', "
                         f"suite: '{case}', is_parallel: false, priority: {-len(lines)})")
    for name, (sentence, deed) in {**WRONG_WAYS, "late": (LATE, "")}.items():
        lines.append(f"test('{name}', python, args: [files('program.py'), '{name}', '1', "
                     f"'{sentence}', '{deed}'], protocol: 'tap', suite: 'ways')")
    (root / "meson.build").write_text("\n".join(lines) + "\n")
    (root / "runs").mkdir()
    subprocess.run(["meson", "setup", root / "build", root], check=True, timeout=300,
                   stdout=subprocess.DEVNULL)


def judge(root, case):
    wanted, wanted_runs, code, *programs = CASES[case]
    done = subprocess.run([RUN_TESTS, root / "build", "--", "--no-rebuild", "--suite", case],
                          capture_output=True, text=True, timeout=300, check=False,
                          env={**os.environ, "RUNS": str(root / "runs")})
    files = [root / "runs" / f"{case}-{name}" for name, *_ in programs]
    runs = [len(each.read_text()) if each.exists() else 0 for each in files]
    last = done.stdout.splitlines()[-1]
    right = last == wanted if wanted else " 0 failed" not in last
    # What was late and is not counted as failed is shown.
    shown = code or ("UNSTEADY" in done.stdout and LATE in done.stdout)
    if right and shown and runs == wanted_runs and done.returncode == code:
        return []
    return [f"{last}, ran {runs}, status {done.returncode}; wanted {wanted}, {wanted_runs}, {code}",
            *done.stdout.splitlines()]


def run_ways(root):
    """What each that failed is taken for: whether it is wrong. The one that is late is not."""
    run_tests, ways = load_run_tests(), {}
    os.environ["RUNS"] = str(root / "runs")
    entries, _ = run_tests.meson_test(str(root / "build"), "--no-rebuild", "--suite", "ways")
    for entry in entries:
        one = run_tests.Sum()
        with contextlib.redirect_stdout(io.StringIO()):
            run_tests.add_program(one, entry["name"], entry)
        ways[entry["name"].rpartition(" / ")[2].rpartition(":")[2]] = one.wrong, one.failed
    return ways


def judge_way(ways, name, wanted):
    return [] if ways.get(name) == wanted else [f"got {ways.get(name)}, wanted {wanted}: {ways}"]


with tempfile.TemporaryDirectory() as directory:
    set_up(pathlib.Path(directory))
    said = run_ways(pathlib.Path(directory))
    tap.run([(case.replace("_", " "), lambda case=case: judge(pathlib.Path(directory), case))
             for case in CASES] +
            [(way.replace("_", " "), lambda way=way: judge_way(said, way, (way != "late", 1)))
             for way in (*WRONG_WAYS, "late")])
