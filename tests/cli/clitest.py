# SPDX-License-Identifier: Apache-2.0
"""What the tests of the command share: a fresh store for each test, processes that do not
survive it, waiting for conditions with a deadline, and TAP output."""
import fcntl
import glob
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'lib'))
from nothing_left import scratch_place, stop_child  # noqa: E402

COMMAND = os.environ.get('HOLDFAST_COMMAND', 'holdfast')
# How many times slower than usual all is, under a sanitizer say.
SLOW = float(os.environ.get('HOLDFAST_TEST_SLOW', '1'))
# Seconds; generous, for a loaded machine: only a failure waits so long.
PATIENCE = float(os.environ.get('HOLDFAST_PATIENCE', '40')) * SLOW
TESTS = []


# Whoever started us may have had some signals ignored (nohup does); the command would inherit that.
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1,
               signal.SIGUSR2, signal.SIGTSTP):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)


class Skip(Exception):
    """Raised by a test that cannot run here; says why."""


def test(function):
    TESTS.append(function)
    return function


def with_skewed_clock():
    """An environment in which a program's wall clock is an hour fast. A missing library would only
    be a warning of the dynamic linker, and the clock right."""
    library = os.environ['HOLDFAST_SKEWED_CLOCK']
    assert os.path.exists(library), f'{library} is not built'
    skewed = {**os.environ, 'LD_PRELOAD': library}
    if subprocess.run(['true'], env=skewed, stderr=subprocess.DEVNULL, check=False).returncode:
        raise Skip('this is built with another C library than the programs of the machine')
    return skewed


def test_of_a_moment(function):
    """For what shows only if the machine does not stand still at some moment: what fails is played
    again, on a stage of its own. What is wrong fails each time."""
    def play(box):
        for attempt in range(3):
            stage = Box()
            try:
                return function(stage)
            except AssertionError as error:
                print(f'# attempt {attempt + 1}: {error}', flush=True)
                last = error
            finally:
                stage.close()
        raise last
    play.__name__ = function.__name__
    return test(play)


def equal(got, wanted, what=''):
    if got != wanted:
        raise AssertionError(f'{what}: got {got!r}, wanted {wanted!r}')


def contains(text, part):
    if part not in text:
        raise AssertionError(f'{part!r} is not in {text!r}')


def wait_until(condition, what):
    """Looks again and again until `condition` answers something true, and answers that. The longer
    it has waited, the less often: a look may start a program."""
    begun = time.monotonic()
    deadline = begun + PATIENCE
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f'after {PATIENCE} s still not: {what}')
        time.sleep(min(max(0.005, (time.monotonic() - begun) / 16), 0.05))


def state_of(pid):
    """The letter of /proc/PID/stat, or '' if there is no such process."""
    try:
        with open(f'/proc/{pid}/stat', encoding='utf-8', errors='replace') as file:
            return file.read().rsplit(')', 1)[1].split()[0]
    except OSError:
        return ''


def is_alive(pid):
    return state_of(pid) not in ('', 'Z', 'X')


def file_of(pid, name):
    """What /proc says of a process; nothing if there is none."""
    try:
        with open(f'/proc/{pid}/{name}', encoding='utf-8', errors='replace') as file:
            return file.read()
    except OSError:
        return ''


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __repr__(self):
        return f'exit {self.code}, stdout {self.out!r}, stderr {self.err!r}'


class Process:
    """A command that runs beside the test."""

    def __init__(self, box, words, **options):
        self.popen = subprocess.Popen(words, cwd=box.path,
                                      env={**box.environment, **options.get('environment', {})},
                                      stdin=options.get('stdin', subprocess.DEVNULL),
                                      stdout=subprocess.PIPE,
                                      stderr=options.get('stderr', subprocess.PIPE),
                                      start_new_session=True,
                                      pass_fds=options.get('descriptors', ()),
                                      preexec_fn=options.get('before'))
        self.pid = self.popen.pid

    def line(self):
        """The next line of its output."""
        return self.popen.stdout.readline().decode(errors='surrogateescape').rstrip('\n')

    def signal(self, number):
        if number == signal.SIGSTOP:
            stop_child(self.pid)
        else:
            os.kill(self.pid, number)

    def end(self):
        """Waits for the end."""
        try:
            out, err = self.popen.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f'{self.popen.args} has not ended') from None
        code = self.popen.returncode
        return Result(code, out.decode(errors='surrogateescape'),
                      (err or b'').decode(errors='replace'))

    def stop(self):
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait()
        for stream in (self.popen.stdout, self.popen.stderr):
            if stream:
                stream.close()


class FullPipe:
    """A pipe without room for one more byte, until it is read."""

    def __init__(self):
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.writer, False)
        for size in (4096, 1):
            try:
                while True:
                    os.write(self.writer, b'.' * size)
            except BlockingIOError:
                pass
        os.set_blocking(self.writer, True)

    def read_until(self, part):
        """Reads until `part` has come; answers everything."""
        os.set_blocking(self.reader, False)
        text = b''

        def look():
            nonlocal text
            try:
                text += os.read(self.reader, 65536)
            except BlockingIOError:
                pass
            return part in text
        wait_until(look, f'{part!r} in the pipe')
        return text.lstrip(b'.').decode()

    def close(self):
        os.close(self.reader)
        os.close(self.writer)


class Box:
    """A directory on tmpfs with a store of its own."""

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix='holdfast-cli-', dir=scratch_place())
        os.mkdir(self.file('store'), 0o700)
        self.environment = {key: value for key, value in os.environ.items()
                            if not key.startswith('HOLDFAST_')}
        self.environment['HOLDFAST_DIR'] = self.file('store')
        self.environment['SHELL'] = '/bin/sh'
        self.processes, self.pids = [], []

    def file(self, name):
        return os.path.join(self.path, name)

    def script(self, name, text):
        with open(self.file(name), 'w', encoding='utf-8') as file:
            file.write('#!/bin/sh\n' + text)
        os.chmod(self.file(name), 0o755)

    def command_for_all_users(self):
        """A copy of the command, and of its library, that any user can reach: the build may be in a
        directory that only its owner may enter."""
        os.chmod(self.path, 0o755)
        place, libraries = self.file('bin'), self.file('lib')
        built = os.path.dirname(os.environ.get('HOLDFAST_LIBRARY', ''))
        for folder, paths in ((place, [COMMAND]), (libraries, glob.glob(f'{built}/lib*.so*')),
                              (f'{libraries}/holdfast', glob.glob(f'{built}/holdfast/*.so'))):
            os.makedirs(folder, exist_ok=True)
            for path in filter(os.path.isfile, paths):
                shutil.copy(path, folder)
        self.environment['LD_LIBRARY_PATH'] = libraries
        return os.path.join(place, os.path.basename(COMMAND))

    def run(self, *words, stdin=b'', environment=None):
        """Runs holdfast to its end."""
        try:
            done = subprocess.run([COMMAND, *words], cwd=self.path, input=stdin, timeout=PATIENCE,
                                  env={**self.environment, **(environment or {})},
                                  capture_output=True, check=False)
        except subprocess.TimeoutExpired as late:
            raise AssertionError(f'holdfast {words} has not ended: {late.stderr}') from None
        return Result(done.returncode, done.stdout.decode(errors='surrogateescape'),
                      done.stderr.decode(errors='replace'))

    def expect(self, code, *words, **options):
        result = self.run(*words, **options)
        if result.code != code:
            raise AssertionError(f'holdfast {" ".join(map(repr, words))}: {result}, wanted {code}')
        return result

    def start(self, *words, **options):
        """Starts holdfast."""
        process = Process(self, [options.pop('command', COMMAND), *words], **options)
        self.processes.append(process)
        return process

    def hold(self, name, *options):
        """A holdfast that holds `name` until it is stopped, once it does."""
        process = self.start('run', *options, name, '--', 'sh', '-c', 'echo $$; exec sleep 1000')
        process.child = int(process.line())
        self.pids.append(process.child)
        return process

    def inhabitants(self):
        """The processes that run in it."""
        return [pid for pid in os.listdir('/proc')
                if pid.isdigit() and self.path in file_of(pid, 'environ')]

    def picture(self, *words):
        return json.loads(self.expect(0, 'show', '--json', *words).out)

    def count(self, role, name):
        return sum(len(thing[role]) for thing in self.picture(name))

    def wait_for_waiters(self, name, count=1):
        wait_until(lambda: self.count('waiters', name) == count, f'{count} waiting for {name}')

    def wait_for_holders(self, name, count=1):
        wait_until(lambda: self.count('holders', name) == count, f'{count} holding {name}')

    def read_pid(self, name):
        """The number that a script of the test writes into the file `name`."""
        def number():
            try:
                with open(self.file(name), encoding='utf-8') as file:
                    text = file.read()
                return int(text) if text.endswith('\n') else 0
            except OSError:
                return 0
        pid = wait_until(number, f'a pid in {name}')
        self.pids.append(pid)
        return pid

    def close(self):
        for process in self.processes:
            process.stop()
        for pid in self.pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        shutil.rmtree(self.path, ignore_errors=True)


def need_terminals():
    try:
        for fd in os.openpty():
            os.close(fd)
    except OSError as error:
        raise Skip(f'there are no pseudo-terminals here: {error.strerror}') from None


class Terminal:
    """A pseudo-terminal with a little shell in it: a session leader that runs one job with job
    control, and reports what becomes of it: "stopped" or "exit N". """

    def __init__(self, box, *words, columns=None):
        self.text = ''
        need_terminals()
        self.report, report = os.pipe()
        self.orders, orders = os.pipe()
        self.orders, orders = orders, self.orders
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                os.close(self.report)
                os.close(self.orders)
                os.chdir(box.path)
                if columns:
                    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack('4H', 24, columns, 0, 0))
                little_shell(words, box.environment, report, orders)
            finally:
                os._exit(99)
        os.close(report)
        os.close(orders)
        box.pids.append(self.pid)

    def type(self, text):
        os.write(self.fd, text.encode())

    def wait_for(self, pattern):
        """Reads what appears on the screen until `pattern` does; answers the match."""
        def look():
            self.read_screen()
            return re.search(pattern, self.text)
        return wait_until(look, f'{pattern!r} on the screen, which shows {self.text!r}')

    def read_screen(self):
        os.set_blocking(self.fd, False)
        try:
            self.text += os.read(self.fd, 65536).decode(errors='replace')
        except (BlockingIOError, OSError):
            pass

    def next_report(self):
        os.set_blocking(self.report, False)
        line = b''

        def look():
            nonlocal line
            self.read_screen()
            try:
                line += os.read(self.report, 1)
            except BlockingIOError:
                return False
            return line.endswith(b'\n')
        wait_until(look, f'a report of the little shell; the screen shows {self.text!r}')
        return line.decode().strip()

    def order(self, text):
        os.write(self.orders, text.encode() + b'\n')

    def close(self):
        for fd in (self.fd, self.report, self.orders):
            os.close(fd)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def little_shell(words, environment, report, orders):
    """Runs in the session leader. An interactive shell, as far as a job is concerned."""
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    job = os.fork()
    if job == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpgrp())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.close(report)
        os.close(orders)
        os.execvpe(words[0], words, environment)
    while True:
        _, status = os.waitpid(job, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            os.tcsetpgrp(0, os.getpgrp())
            os.write(report, b'stopped\n')
            order = os.read(orders, 16)
            if order == b'fg\n':
                os.tcsetpgrp(0, job)
            os.killpg(job, signal.SIGCONT)
            continue
        foreground = os.tcgetpgrp(0)
        ours = 'ours' if foreground in (job, os.getpgrp()) else 'not ours'
        os.write(report, f'exit {os.waitstatus_to_exitcode(status)}, terminal {ours}\n'.encode())
        return


def alarm(*_):
    raise AssertionError('the test has taken too long')


def told_to_end(*_):
    sys.exit('told to end')


def main(limit=4 * PATIENCE):
    """Runs all tests, or those that are named; none may take more than `limit` seconds."""
    signal.signal(signal.SIGALRM, alarm)
    signal.signal(signal.SIGTERM, told_to_end)
    chosen = [function for function in TESTS
              if len(sys.argv) == 1 or function.__name__ in sys.argv[1:]]
    print(f'1..{len(chosen)}')
    failed = False
    for number, function in enumerate(chosen, 1):
        name = function.__name__.replace('_', ' ')
        box = Box()
        signal.alarm(int(limit))
        try:
            function(box)
            print(f'ok {number} - {name}')
        except Skip as reason:
            print(f'ok {number} - {name} # SKIP {reason}')
        except Exception:  # pylint: disable=broad-except
            failed = True
            for line in traceback.format_exc(limit=-5).splitlines():
                print('#   ' + line)
            print(f'not ok {number} - {name}')
        finally:
            signal.alarm(0)
            box.close()
        sys.stdout.flush()
    sys.exit(1 if failed or not chosen else 0)
