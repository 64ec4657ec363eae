# SPDX-License-Identifier: Apache-2.0
"""Several test programs, one after another, as if they were one."""
import pathlib
import re
import subprocess

from nothing_left import die_with_parent


def split(words):
    """Each program with the names of its tests: a program is a path, a name is not."""
    programs = []
    for word in words:
        if "/" in word:
            programs.append([word])
        else:
            programs[-1].append(word)
    return programs


def run_each(words, environment):
    """Each program may have names of its tests after it. All tests are counted through, under their
    topics; the status of the first that fails."""
    count, worst = 0, 0
    for program_and_tests in split(words):
        topic = pathlib.Path(program_and_tests[0]).name.removeprefix("conformance-")
        with subprocess.Popen(program_and_tests, env=environment, stdout=subprocess.PIPE, text=True,
                              preexec_fn=die_with_parent) as program:
            planned, seen = None, 0
            for line in program.stdout:
                plan = re.match(r"1\.\.(\d+)", line)
                planned = int(plan[1]) if plan else planned
                result = re.match(r"((?:not )?ok) \d+ - (.*)", line)
                seen += bool(result)
                count += bool(result)
                if not plan:
                    named = f"{result[1]} {count} - {topic}: {result[2]}" if result else line
                    print(named.rstrip(), flush=True)
        if planned is None or seen < planned:
            count += 1
            print(f"not ok {count} - {topic}: ended by itself, with status {program.returncode}")
        worst = worst or program.returncode
    print(f"1..{count}")
    return worst
