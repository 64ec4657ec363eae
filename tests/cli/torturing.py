# SPDX-License-Identifier: Apache-2.0
"""What the tests of `holdfast torture` on servers share: runs to their end, again where a machine
with other work to do was in the way, and servers of every kind."""
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import sys
import time

from clitest import SLOW, Process, Skip

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'lib'))
from nothing_left import die_with_parent  # noqa: E402

# For a run on a busy machine, or one that waits in vain for a silent store.
LONG = int(150 * SLOW)
# For a test: runs until one is as it must be, and what comes before them. Nothing hangs for longer.
LIMIT = 3 * LONG
UNKNOWN_SCHEME = 'knows no scheme'
CONFORMANCE = pathlib.Path(__file__).resolve().parent.parent / 'conformance'


def end_of(process):
    out, err = process.popen.communicate(timeout=LONG)
    return process.popen.returncode, out.decode(), err.decode()


def judged(code, out, err):
    """What was reported in the end, and the exit code."""
    assert out.startswith('{'), (code, out, err)
    return {**json.loads(out), 'code': code, 'err': err}


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


# What only says that it took too long, for which the machine may be the reason.
LATE_RULES = ('L1', 'L2', 'L4')
TOO_LITTLE = r'^only \d+ grants|tried and never hit$|" never began'
TOO_LATE = 'not ended in time'


def is_safe(report):
    """No rule that is not about time is broken."""
    return all(rule['rule'] in LATE_RULES or rule['broken'] == 0 for rule in report['rules'])


def checked(report, rule):
    return sum(entry['checked'] for entry in report['rules'] if entry['rule'] == rule)


def is_conclusive(report):
    """The run came to its end, and found nothing: if it was not enough, that was not for a reason
    that no run may have. A machine may be too slow for the end, and only for that."""
    if report['code'] == 0:
        return True
    if report['code'] == 2:
        assert re.search(TOO_LITTLE, report['reason']), report
        return True
    late = {1: any(rule['broken'] for rule in report['rules']), 69: True,
            70: TOO_LATE in report['err']}
    assert late.get(report['code']), report
    return False


def all_hit_and_it_is_safe(faults, run, rules=('S1',)):
    """Each of the faults hits in some run, and none of the runs finds anything, although some have
    looked for what breaks the rules: who believes to hold what, at least."""
    missing = {*faults, *rules}

    def is_enough(report):
        assert set(hits(report)) <= set(faults) and is_safe(report), report
        missing.difference_update(fault for fault, count in hits(report).items() if count)
        missing.difference_update(rule for rule in rules if checked(report, rule))
        return is_conclusive(report) and not missing
    report = until_so(is_enough, run)
    assert is_enough(report), (missing, report)
    return report


FAULTS = ['stop-holder', 'stop-waiter', 'kill-holder', 'kill-waiter', 'pause', 'clock', 'reset',
          'hole', 'mute', 'drip', 'late-release', 'error-reply', 'server-stop']


def has_each_fault_in_20_seconds(box, sandbox):
    """Also where leases are long, or the server slow: each begins and hits in one run."""
    def has_all(report):
        assert is_safe(report), report
        return all(hits(report).get(fault) for fault in FAULTS)
    report = until_so(has_all, lambda: report_of(
        box, '--sandbox', sandbox, '--time', '20s', '--faults', ','.join(FAULTS)))
    assert has_all(report), report


class Session(Process):
    """A program that starts others: all of them end with it, and it ends with the test. Its files
    are in the box."""

    def __init__(self, box, words):
        environment = {'HOLDFAST_TEST_DIR': box.path, 'HOLDFAST_TEST_SLOW': f'{SLOW:.0f}'}
        super().__init__(box, words, before=die_with_parent, environment=environment)

    def stop(self):
        if self.popen.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
        super().stop()


def run_on(box, server, *words):
    """A run on what `server`, one of the programs with_*.py and its words, starts for it. Where it
    does not answer in time it is no run, and nothing has hit."""
    script = f'exec "$0" torture "$HOLDFAST_TEST_URL" --json {shlex.join(words)}'
    process = Session(box, ['python3', CONFORMANCE / server[0], *server[1:], 'sh', '-c', script,
                            os.environ['HOLDFAST_COMMAND']])
    box.processes.append(process)
    code, out, err = end_of(process)
    no_run = {'faults': [], 'rules': [], 'code': code, 'err': err}
    return judged(code, out, err) if out or code != 69 else no_run


def need_engine(box, url):
    if UNKNOWN_SCHEME in box.run('show', '-e', url).err:
        raise Skip(f'this build has no engine for {url}')


def need_redis(box):
    """For tests whose server is started by the command itself, or by with_redis.py."""
    if not shutil.which('redis-server'):
        raise Skip('there is no redis-server')
    need_engine(box, 'redis+unix:///none')


def need_tls(box, scheme):
    """For tests that make a certificate, and connect with it."""
    why = box.run('show', '-e', f'{scheme}://127.0.0.1:1/1?ca=/none').err
    if 'has no TLS' in why:
        raise Skip(why.strip())
    if not shutil.which('openssl'):
        raise Skip('there is no openssl, which makes the certificate of the server')
