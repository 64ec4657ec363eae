# SPDX-License-Identifier: Apache-2.0
"""Scenes in which the command of an earlier version and today's share the locks of a store, each
scene with either of them first. tools/mixed-versions builds the two, and runs this.

usage: mixed_versions.py [STORE[:SCENE]...]

SCENE is a part of the scene's name.
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'cli'))
from clitest import (COMMAND, PATIENCE, Box, Skip, alarm, contains, equal, file_of,  # noqa: E402
                     wait_until)
from databases import Database  # noqa: E402
from servers import start_etcd, start_memcached, start_redis, start_zookeeper  # noqa: E402

PREVIOUS, BASE = os.environ['HOLDFAST_PREVIOUS'], os.environ['HOLDFAST_BASE']
BUSY, LOST, USAGE, UNREACHABLE = 75, 121, 64, 69
THREAD_OWNER = pathlib.Path(__file__).resolve().parent / 'thread_owner.py'
# It has the word in it that stands before a thread's key at etcd.
THREADS_TEXT = 'the holder, thread=1 of 2'
FOR_LONG = f'{int(PATIENCE)}s'
# A hold that says its token, and ends when its input does.
HOLD = ('--', 'sh', '-c', 'echo $HOLDFAST_TOKEN; read line; true')


# ---- the stores ----

def database(kind, options='', *server_options):
    def start(box):
        return Database(box, kind, *server_options).url(options)
    return start


STORES = {
    'local': lambda box: f'local://{box.file("store")}',
    'redis': lambda box: start_redis(box).url,
    'redis-simple': lambda box: f'{start_redis(box).url}?format=simple',
    'quorum': lambda box: 'quorum:' + ','.join(start_redis(box).url for _ in range(3)),
    'zookeeper': lambda box: f'zk://127.0.0.1:{start_zookeeper(box).port}',
    'etcd': lambda box: start_etcd(box).url(),
    'mariadb': database('mariadb'),
    'mariadb-session': database('mariadb', '?layout=session',
                                '--plugin-load-add=metadata_lock_info'),
    'postgres': database('postgres'),
    'postgres-session': database('postgres', '?layout=session'),
    'memcached': lambda box: f'memcached://127.0.0.1:{start_memcached(box).port}',
}


class Side:
    """The command of one version at the store."""

    def __init__(self, box, url, command, what):
        self.box, self.url, self.command, self.what = box, url, command, what
        self.direction, self.has = 'any', set()

    def name(self, word):
        """'@x' is a name that no other scene uses, and not this one the other way round."""
        return f'{self.direction}/{word[1:]}' if word.startswith('@') else word

    def start(self, *words, **options):
        words = map(self.name, words)
        return self.box.start('-e', self.url, *words, command=self.command, **options)

    def run(self, *words):
        return self.start(*words).end()

    def expect(self, code, *words):
        result = self.run(*words)
        equal(result.code, code, f'{self.what}: {" ".join(words)}: {result.out}{result.err}')
        return result.out.strip()

    def tries(self, code, name, *options):
        self.expect(code, 'try', *options, name, '--', 'true')

    def hold(self, name, *options):
        """Once it does; `token` is what its command was told, 0 where there is none."""
        process = self.start('run', '-w', FOR_LONG, *options, name, *HOLD, stdin=subprocess.PIPE)
        process.token = int(process.line() or '-1')
        assert process.token >= 0, f'{self.what} has not got {name}: {process.end()}'
        return process

    def hold_as_a_thread(self, name, mode):
        """The same with a thread as its owner, which the command's own locks do not have."""
        library = pathlib.Path(self.command).parents[1] / 'libholdfast.so.0.1.0'
        process = self.box.start(str(THREAD_OWNER), str(library), self.url, self.name(name),
                                 str(mode), THREADS_TEXT, command=sys.executable,
                                 stdin=subprocess.PIPE)
        process.token = int(process.line() or '-1')
        assert process.token >= 0, f'{self.what} has not got {name}: {process.end()}'
        return process

    def wait(self, name, *words, verb='run', command=HOLD):
        """A waiter, once the store has refused it."""
        process = self.start('-v', verb, *words, name, *command, stdin=subprocess.PIPE)
        said = []
        for line in iter(process.popen.stderr.readline, b''):
            said.append(line)
            if b'the request waits' in line:
                return process
            assert b': granted' not in line, f'{self.what} is granted what is held: {said}'
        raise AssertionError(f'{self.what} does not wait: {said}')

    def picture(self, name):
        shown = json.loads(self.expect(0, 'show', '--json', name))
        return shown[0] if shown else {'holders': [], 'waiters': []}


def granted(waiter):
    """The token of a waiter, which has its turn."""
    waiter.token = int(waiter.line() or '-1')
    assert waiter.token >= 0, f'a waiter was not granted its lock: {waiter.end()}'
    return waiter.token


def end(*processes):
    for process in processes:
        equal(process.end().code, 0, 'the exit code of a holder')


# ---- what a store may lack ----

PROBES = {
    'fair locks': ('try', '-F', 'probe/fair', '--', 'true'),
    'read-write locks': ('try', '-s', 'probe/rw', '--', 'true'),
    'upgradeable readers': ('try', '-U', 'probe/upgrade', '--', 'true'),
    'semaphores': ('try', '-j', '2', 'probe/sem', '--', 'true'),
    'counters': ('counter', 'probe/counter', 'get'),
    'latches': ('latch', 'probe/latch', 'get'),
    'locks that outlive their process': ('lock', '-t', '1s', 'probe/detached'),
    'breaking': ('break', '-y', 'probe/break'),
    'showing': ('show', '--json', 'probe/show'),
    'rate limiters': ('rate', '-n', 'probe/rate', '1/1s'),
    'elections': ('elect', '--help'),
    'listed waiters': None,
    'texts of owners': None,
    'tokens': None,
}


def probe(side):
    """What this version has at the store."""
    has = {what for what, words in PROBES.items()
           if words and side.run(*words).code not in (USAGE, UNREACHABLE)}
    holder = side.hold('probe/mutex', '--owner', 'the probe')
    if holder.token:
        has.add('tokens')
    if 'showing' in has:
        waiter, end_of_looks = side.wait('probe/mutex'), time.monotonic() + 3
        shown = side.picture('probe/mutex')
        # The first refusal may come before the place in the queue.
        while not shown['waiters'] and time.monotonic() < end_of_looks:
            shown = side.picture('probe/mutex')
        if shown['holders'] and shown['waiters']:
            has.add('listed waiters')
        if [each['owner_text'] for each in shown['holders']] == ['the probe']:
            has.add('texts of owners')
        end(holder)
        granted(waiter)
        end(waiter)
    else:
        end(holder)
    return has


# ---- the scenes ----

SCENES = []


def scene(*needs):
    def add(function):
        SCENES.append((function, needs))
        return function
    return add


@scene()
def each_command_loads_its_own_library(one, _other):
    """Else all that follows would prove nothing."""
    holder = one.hold('@library')
    folder = os.path.dirname(os.path.dirname(one.command))
    loaded = {line.split()[-1] for line in file_of(holder.pid, 'maps').splitlines()
              if '/libholdfast' in line}
    assert loaded and all(path.startswith(folder) for path in loaded), loaded
    end(holder)


@scene()
def held_lock_is_refused_and_then_handed_over(one, other):
    holder = one.hold('@mutex')
    other.tries(BUSY, '@mutex')
    one.tries(BUSY, '@mutex')
    waiter = other.wait('@mutex')
    end(holder)
    granted(waiter)
    one.tries(BUSY, '@mutex')
    end(waiter)
    one.tries(0, '@mutex')


@scene()
def wait_for_the_other_version_ends_in_vain(one, other):
    holder = one.hold('@vain')
    other.expect(BUSY, 'run', '-w', '300ms', '@vain', '--', 'true')
    end(holder)
    other.tries(0, '@vain')


@scene()
def counted_file_loses_no_number(one, other):
    path, rounds = one.box.file('count'), 8
    with open(path, 'w', encoding='ascii') as file:
        file.write('0\n')
    add = f'read n < {path}; echo $((n + 1)) > {path}'
    loops = [one.box.start('-c', f'for i in $(seq {rounds}); do "$@" || exit; done', 'sh',
                           side.command, '-e', side.url, 'run', one.name('@count'), '--', 'sh',
                           '-c', add, command='/bin/sh')
             for side in (one, other) for _ in range(2)]
    end(*loops)
    with open(path, encoding='ascii') as file:
        equal(int(file.read()), 4 * rounds, 'the number')


@scene('tokens')
def tokens_grow_from_version_to_version(one, other):
    tokens = []
    for side in (one, other, other, one, one, other):
        holder = side.hold('@token')
        tokens.append(holder.token)
        end(holder)
    equal(tokens, sorted(set(tokens)), 'the tokens')


@scene('tokens')
def tokens_grow_when_a_waiter_is_handed_the_lock(one, other):
    holder, tokens = one.hold('@token/wait'), []
    tokens.append(holder.token)
    for side in (other, one, other):
        waiter = side.wait('@token/wait')
        end(holder)
        tokens.append(granted(waiter))
        holder = waiter
    end(holder)
    equal(tokens, sorted(set(tokens)), 'the tokens')


@scene('fair locks')
def fair_waiters_of_both_versions_keep_their_order(one, other):
    holder = one.hold('@fair', '-F')
    waiters = []
    for side in (other, one, other, one):
        waiters.append(side.wait('@fair', '-F'))
        # A waiter may have its first refusal before its place in the queue.
        if 'listed waiters' in other.has:
            wait_until(lambda: len(other.picture('@fair')['waiters']) == len(waiters), 'it queues')
    other.tries(BUSY, '@fair', '-F')
    for waiter in waiters:
        end(holder)
        granted(waiter)
        later = waiters[waiters.index(waiter) + 1:]
        assert all(each.popen.poll() is None for each in later), 'a waiter has ended too early'
        holder = waiter
    end(holder)


@scene('read-write locks')
def readers_of_both_versions_share_and_keep_writers_out(one, other):
    readers = [one.hold('@rw', '-s'), other.hold('@rw', '-s')]
    for side in (one, other):
        side.tries(BUSY, '@rw', '-W')
    writer = other.wait('@rw', '-W')
    end(readers[0])
    assert writer.popen.poll() is None
    end(readers[1])
    granted(writer)
    for kind in ('-s', '-W'):
        one.tries(BUSY, '@rw', kind)
    reader = one.wait('@rw', '-s')
    end(writer)
    granted(reader)
    end(reader)


@scene('upgradeable readers')
def upgradeable_reader_lets_readers_of_the_other_version_in(one, other):
    holder = one.hold('@upgradeable', '-U')
    other.tries(0, '@upgradeable', '-s')
    for kind in ('-U', '-W'):
        other.tries(BUSY, '@upgradeable', kind)
    end(holder)
    other.tries(0, '@upgradeable', '-W')


@scene('semaphores')
def permits_are_counted_over_both_versions(one, other):
    one.expect(0, 'sem', '@permits', 'set', '3')
    holder = one.hold('@permits', '-k', '2')
    equal(other.expect(0, 'sem', '@permits', 'get'), '1')
    other.tries(BUSY, '@permits', '-k', '2')
    second = other.hold('@permits', '-k', '1')
    one.tries(BUSY, '@permits', '-k', '1')
    waiter = other.wait('@permits', '-k', '2')
    end(holder)
    granted(waiter)
    equal(one.expect(0, 'sem', '@permits', 'get'), '0')
    end(waiter, second)
    other.expect(0, 'sem', '@permits', 'set', '1')
    one.tries(0, '@permits', '-k', '1')
    other.expect(0, 'sem', '@permits', 'rm')


@scene('counters')
def counter_is_one_number_for_both_versions(one, other):
    one.expect(0, 'counter', '@number', 'set', '5')
    other.expect(0, 'counter', '-n', '@number', 'take', '2')
    equal(one.expect(0, 'counter', '@number', 'get'), '3')
    other.expect(BUSY, 'counter', '-n', '@number', 'take', '4')
    waiter = other.start('counter', '-w', FOR_LONG, '@number', 'take', '10')
    if 'listed waiters' in other.has:
        wait_until(lambda: one.picture('@number')['waiters'], 'it waits')
    one.expect(0, 'counter', '@number', 'add', '8')
    end(waiter)
    equal(other.expect(0, 'counter', '@number', 'get'), '1')
    one.expect(0, 'counter', '@number', 'rm')
    equal(other.expect(0, 'counter', '@number', 'get'), '0')


@scene('latches')
def latch_is_counted_down_by_both_versions(one, other):
    one.expect(0, 'latch', '@gate', 'set', '2')
    waiters = [side.start('latch', '-w', FOR_LONG, '@gate', 'wait') for side in (one, other)]
    equal(other.expect(0, 'latch', '@gate', 'down'), '1')
    other.expect(BUSY, 'latch', '-n', '@gate', 'wait')
    equal(one.expect(0, 'latch', '@gate', 'down'), '0')
    end(*waiters)


def see_the_same(one, other, name, *options):
    holder = one.hold(name, '--owner', 'the holder', *options)
    waiters = [side.wait(name, '--owner', side.what, *options) for side in (other, one)]

    def essence(side):
        shown = side.picture(name)
        return (shown['kind'], shown.get('token'),
                [(each['owner'], each['owner_text'], each['mode']) for each in shown['holders']],
                sorted((each['owner'], each['owner_text']) for each in shown['waiters']))
    wait_until(lambda: len(essence(one)[3]) == 2, 'both waiters are shown')
    wait_until(lambda: essence(other) == essence(one), 'both versions show the same')
    if 'texts of owners' in one.has:
        equal([each[1] for each in essence(one)[2]], ['the holder'], 'the holder')
    other.expect(0, 'held', name)
    end(holder)
    # Not at every store the first one is first.
    while waiters:
        waiter = wait_until(lambda: next(filter(has_token, waiters), None), 'one has its turn')
        waiters.remove(waiter)
        end(waiter)


@scene('showing', 'listed waiters')
def both_versions_see_the_same_of_a_mutex(one, other):
    see_the_same(one, other, '@seen')


@scene('showing', 'listed waiters', 'fair locks')
def both_versions_see_the_same_of_a_fair_lock(one, other):
    see_the_same(one, other, '@seen/fair', '-F')


@scene('showing', 'listed waiters', 'read-write locks')
def both_versions_see_the_same_of_a_read_write_lock(one, other):
    see_the_same(one, other, '@seen/rw', '-W')


@scene('showing', 'listed waiters', 'semaphores')
def both_versions_see_the_same_of_a_semaphore(one, other):
    see_the_same(one, other, '@seen/permits', '-j', '1')


def see_a_thread(one, other, name, mode, shown_mode):
    """A version that does not know of threads may show the thread's key behind the text."""
    holder = one.hold_as_a_thread(name, mode)

    def essence(side):
        shown = side.picture(name)
        each, = shown['holders']
        text = each['owner_text']
        if side is other and side.command == PREVIOUS:
            text = re.sub(r' thread=[0-9a-f:]+$', '', text)
        return (shown['kind'], shown.get('token'), each['token'], each['owner'], each['mode'],
                each['pid'], text)
    seen = essence(one)
    equal(essence(other), seen, 'what the other version shows')
    if 'layout=session' not in one.url:  # the database's own locks do not tell all modes
        equal(seen[4], shown_mode, 'the mode')
    assert seen[5] in (None, holder.pid), f'the process is {seen[5]}, not {holder.pid}'
    assert seen[2] in (None, holder.token), f'the token is {seen[2]}, not {holder.token}'
    if 'texts of owners' in one.has and 'redis' not in one.url:
        equal(seen[6], THREADS_TEXT, 'the text of the owner')
    other.tries(BUSY, name, *(['-W'] if 'write' in shown_mode else []))
    end(holder)


@scene('showing')
def thread_that_holds_a_mutex_is_shown_by_both_versions(one, other):
    see_a_thread(one, other, '@thread', 0, 'mutex')


@scene('showing', 'read-write locks')
def thread_that_writes_is_shown_by_both_versions(one, other):
    see_a_thread(one, other, '@thread/rw', 4, 'write')


def has_token(process):
    os.set_blocking(process.popen.stdout.fileno(), False)
    try:
        return bool(process.popen.stdout.readline())
    finally:
        os.set_blocking(process.popen.stdout.fileno(), True)


@scene('breaking')
def broken_lock_is_lost_to_the_other_version(one, other):
    holder = one.hold('@broken', '-t', '1s')
    other.expect(0, 'break', '-y', '@broken')
    other.tries(0, '@broken')
    equal(holder.popen.wait(PATIENCE), LOST, 'how the holder ends')


@scene()
def renewed_lease_keeps_the_other_version_out(one, other):
    holder = one.hold('@renewed', '-t', '1s')
    other.expect(BUSY, 'run', '-w', '2500ms', '@renewed', '--', 'true')
    waiter = other.wait('@renewed', '-t', '1s')
    end(holder)
    granted(waiter)
    one.expect(BUSY, 'run', '-w', '2500ms', '@renewed', '--', 'true')
    end(waiter)


@scene()
def lock_of_a_killed_holder_is_granted_to_the_other_version(one, other):
    holder = one.hold('@killed', '-t', '1s')
    waiter = other.wait('@killed')
    holder.signal(signal.SIGKILL)
    granted(waiter)
    end(waiter)


@scene('locks that outlive their process')
def key_of_one_version_is_known_to_the_other(one, other):
    key = one.expect(0, 'lock', '-t', '1m', '@key')
    other.tries(BUSY, '@key')
    key = other.expect(0, 'renew', '-t', '2m', '@key', key)
    one.tries(BUSY, '@key')
    key = one.expect(0, 'renew', '-t', '3m', '@key', key)
    other.expect(0, 'unlock', '@key', key)
    one.tries(0, '@key')


@scene('locks that outlive their process')
def lease_of_one_version_ends_for_the_other(one, other):
    one.expect(0, 'lock', '-t', '1s', '@lease')
    other.expect(0, 'run', '-w', FOR_LONG, '@lease', '--', 'true')


@scene('elections')
def candidates_of_both_versions_lead_one_after_the_other(one, other):
    leader = one.start('elect', '@leader', *HOLD, stdin=subprocess.PIPE)
    token = int(leader.line())
    candidate = other.wait('@leader', '--text', 'the candidate', verb='elect')
    if {'listed waiters', 'texts of owners'} <= one.has:
        wait_until(lambda: [each['owner_text'] for each in one.picture('@leader')['waiters']] ==
                   ['the candidate'], 'the candidate is shown')
    leader.signal(signal.SIGTERM)
    assert granted(candidate) > token or 'tokens' not in one.has, 'the tokens do not grow'
    leader.popen.wait(PATIENCE)
    candidate.signal(signal.SIGTERM)
    candidate.popen.wait(PATIENCE)


@scene('rate limiters')
def rate_is_used_up_by_both_versions_together(one, other):
    def take(code, side):
        side.expect(code, 'rate', '-n', '--burst', '3', '@rate', '1/1h')
    for side in (one, other, one):
        take(0, side)
    take(BUSY, one)
    take(BUSY, other)


@scene()
def doctor_finds_no_fault_in_what_the_other_version_made(one, other):
    one.tries(0, '@made')
    told = other.run('doctor', '--json').out
    ids = {each.get('id') for each in json.loads(told)}
    equal(ids & {'tables-differ', 'tables-missing', 'no-store'}, set(), 'the findings')


# ---- the run ----

class Tap:
    def __init__(self):
        self.count, self.failed = 0, False

    def tell(self, name, play):
        self.count += 1
        signal.alarm(int(4 * PATIENCE))
        try:
            play()
            print(f'ok {self.count} - {name}')
        except Skip as reason:
            print(f'ok {self.count} - {name} # SKIP {reason}')
        except Exception:  # pylint: disable=broad-except
            self.failed = True
            for line in traceback.format_exc(limit=-5).splitlines():
                print('#   ' + line)
            print(f'not ok {self.count} - {name}')
        finally:
            signal.alarm(0)
        sys.stdout.flush()


def play_scene(function, needs, one, other, direction):
    for side in (one, other):
        side.direction = direction
        lacked = sorted(set(needs) - side.has)
        if lacked:
            raise Skip(f'{side.what} has no {lacked[0]} here')
    before = len(one.box.processes)
    try:
        function(one, other)
    finally:
        for process in one.box.processes[before:]:
            process.stop()


def refuse_or_share(store, previous, today):
    """Two layouts of a local file never share a lock: then one is refused, and harms nothing."""
    holder = previous.hold('@layout')
    told = today.run('try', '@layout', '--', 'true')
    if store == 'local' and told.code == UNREACHABLE:
        contains(told.err, 'was made by another version')
        previous.tries(BUSY, '@layout')
        end(holder)
        previous.tries(0, '@layout')
        return False
    equal(told.code, BUSY, told.err)
    end(holder)
    return True


def play_store(tap, store, part):
    box = Box()
    try:
        url = STORES[store](box)
        previous = Side(box, url, PREVIOUS, f'the version of {BASE}')
        today = Side(box, url, COMMAND, "today's version")
        shared = []
        tap.tell(f'{store}: the two versions share the store, or one is refused',
                 lambda: shared.append(refuse_or_share(store, previous, today)))
        if shared != [True]:
            return
        previous.has, today.has = probe(previous), probe(today)
        for what in sorted(set(PROBES) - previous.has - today.has):
            print(f'# {store} has no {what}')
        for function, needs in SCENES:
            name = function.__name__.replace('_', ' ')
            if set(needs) - previous.has - today.has or part not in name:
                continue
            for direction, sides in (('old', (previous, today)), ('new', (today, previous))):
                tap.tell(f'{store}: {name} ({direction} first)',
                         lambda f=function, n=needs, s=sides, d=direction: play_scene(f, n, *s, d))
    except Skip as reason:
        tap.count += 1
        print(f'ok {tap.count} - {store} # SKIP {reason}')
    finally:
        box.close()


def main():
    chosen = [word.partition(':') for word in sys.argv[1:] or STORES]
    unknown = [store for store, _, _ in chosen if store not in STORES]
    if unknown:
        sys.exit(f'mixed_versions: {unknown[0]} is none of {", ".join(STORES)}')
    signal.signal(signal.SIGALRM, alarm)
    tap = Tap()
    print(f'# the previous version is {BASE}')
    for store, _, part in chosen:
        play_store(tap, store, part)
    print(f'1..{tap.count}')
    sys.exit(1 if tap.failed or not tap.count else 0)


main()
