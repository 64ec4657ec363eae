"""What the tests of `holdfast torture` on servers share: runs to their end, again where a machine
with other work to do was in the way, and servers of every kind."""
import json
import os
import pathlib
import signal
import time

from clitest import SLOW, Process, Skip

# For a run on a busy machine, or one that waits in vain for a silent store.
LONG = int(150 * SLOW)
UNKNOWN_SCHEME = 'knows no scheme'
CONFORMANCE = pathlib.Path(__file__).resolve().parent.parent / 'conformance'


def end_of(process):
    signal.alarm(2 * LONG)
    out, err = process.popen.communicate(timeout=LONG)
    return process.popen.returncode, out.decode(), err.decode()


def judged(code, out, err):
    """What was reported in the end, and the exit code."""
    assert out.startswith('{'), (code, out, err)
    return {**json.loads(out), 'code': code}


def report_of(box, *words):
    """Of a run, to its end."""
    return judged(*end_of(box.start('torture', '--json', *words)))


def until_so(is_so, run):
    """Runs again until it is: what has to happen in a run may take several where others want the
    processors, too. Answers the last report; only a failure takes long."""
    deadline = time.monotonic() + LONG
    while True:
        report = run()
        if is_so(report) or time.monotonic() > deadline:
            return report


def hits(report):
    return {fault['fault']: fault['hit'] for fault in report['faults']}


def is_safe(report):
    """No rule that is not about time is broken."""
    return all(rule['rule'][0] == 'L' or rule['broken'] == 0 for rule in report['rules'])


def all_hit_and_it_is_safe(faults, run):
    """Each of the faults hits in some run, and none of the runs finds anything."""
    missing = set(faults)

    def is_enough(report):
        assert set(hits(report)) <= set(faults) and is_safe(report), report
        missing.difference_update(fault for fault, count in hits(report).items() if count)
        return not missing
    report = until_so(is_enough, run)
    assert not missing, (missing, report)
    return report


def run_on(box, server, *words):
    """A run on what `server`, one of the programs with_*.py and its words, starts for it. Where it
    does not answer in time it is no run, and nothing has hit."""
    script = f'exec "$0" torture "$HOLDFAST_TEST_URL" --json {" ".join(words)}'
    process = Process(box, ['python3', CONFORMANCE / server[0], *server[1:], 'sh', '-c', script,
                            os.environ['HOLDFAST_COMMAND']])
    box.processes.append(process)
    code, out, err = end_of(process)
    return judged(code, out, err) if out or code != 69 else {'faults': [], 'rules': [], 'why': err}


def need_engine(box, url):
    if UNKNOWN_SCHEME in box.run('show', '-e', url).err:
        raise Skip(f'this build has no engine for {url}')
