# SPDX-License-Identifier: Apache-2.0
"""lock, renew, unlock: locks that live on without a process."""
import json
import os
import signal
import subprocess

from clitest import COMMAND, PATIENCE, contains, equal, main, test


def lock(box, *words):
    key = box.expect(0, 'lock', *words).out
    equal(key.count('\n'), 1)
    return key.strip()


@test
def a_lock_outlives_its_command(box):
    key = lock(box, '-t', '1h', 'x')
    box.expect(75, 'try', 'x', 'true')
    box.expect(75, 'lock', '-n', 'x')
    box.expect(0, 'unlock', 'x', key)
    box.expect(0, 'try', 'x', 'true')


@test
def the_output_is_the_key_alone(box):
    result = box.expect(0, '-v', 'lock', 'x')
    assert result.out.strip() and ' ' not in result.out, result
    contains(result.err, 'token')


@test
def json_says_all(box):
    told = json.loads(box.expect(0, '--json', 'lock', '-t', '1h', 'x "y"').out)
    equal(told['name'], 'x "y"')
    assert told['token'] > 0 and 3500000 < told['lease_ms'] <= 3600000, told
    box.expect(0, 'unlock', 'x "y"', told['owner'])


@test
def the_default_lease_is_thirty_seconds(box):
    told = json.loads(box.expect(0, '--json', 'lock', 'x').out)
    assert 25000 < told['lease_ms'] <= 30000, told


@test
def unlocking_twice_is_121(box):
    key = lock(box, 'x')
    box.expect(0, 'unlock', 'x', key)
    contains(box.expect(121, 'unlock', 'x', key).err, 'holdfast: ')
    box.expect(121, 'renew', 'x', key)


@test
def only_the_right_key_unlocks(box):
    key = lock(box, 'x')
    other = lock(box, 'y')
    box.expect(121, 'unlock', 'x', other)
    for wrong in ('', 'nonsense', '1:2', 'f' * 100):
        result = box.run('unlock', 'x', wrong)
        assert result.code in (64, 121), result
    box.expect(75, 'try', 'x', 'true')
    box.expect(0, 'unlock', 'x', key)


@test
def renew_lengthens_and_never_shortens(box):
    key = lock(box, '-t', '60s', 'x')
    key = box.expect(0, 'renew', '-t', '1h', 'x', key).out.strip()
    assert left(box, 'x') > 3500000
    key = box.expect(0, 'renew', '-t', '10s', 'x', key).out.strip()
    assert left(box, 'x') > 3500000
    box.expect(0, 'unlock', 'x', key)


def left(box, name):
    return box.picture(name)[0]['holders'][0]['lease_left_ms']


@test
def the_key_stays_the_same(box):
    key = lock(box, 'x')
    equal(box.expect(0, 'renew', 'x', key).out.strip(), key)
    box.expect(0, 'unlock', 'x', key)


@test
def a_lease_ends_by_itself(box):
    key = lock(box, '-t', '200ms', 'x')
    box.expect(0, 'run', 'x', '--', 'true')
    box.expect(121, 'unlock', 'x', key)


@test
def lock_waits_for_its_turn(box):
    holder = box.hold('x')
    waiting = box.start('lock', 'x')
    box.wait_for_waiters('x')
    holder.signal(signal.SIGTERM)
    result = waiting.end()
    equal(result.code, 0)
    box.expect(0, 'unlock', 'x', result.out.strip())


@test
def a_broken_lock_is_lost(box):
    key = lock(box, '-t', '1h', 'x')
    box.expect(0, 'break', '-y', 'x')
    box.expect(121, 'renew', 'x', key)
    box.expect(121, 'unlock', 'x', key)


def printing_to(box, stdout, *words, before=None):
    return subprocess.run([COMMAND, *words], cwd=box.path, env=box.environment,
                          stdout=stdout, stderr=subprocess.PIPE, text=True, check=False,
                          timeout=PATIENCE, preexec_fn=before)


@test
def a_key_that_nobody_can_read_leaves_no_lock(box):
    with open('/dev/full', 'wb') as full:
        refused = [printing_to(box, full, 'lock', 'x')]
    reader, writer = os.pipe()
    os.close(reader)
    refused.append(printing_to(box, writer, 'lock', 'x'))
    os.close(writer)
    refused.append(printing_to(box, None, 'lock', 'x', before=lambda: os.close(1)))
    for result in refused:
        equal(result.returncode, 70, result)
        contains(result.stderr, "'x' has been released")
        equal(result.stderr.count('\n'), 1, 'lines on stderr')
    equal(box.count('holders', 'x'), 0)


@test
def a_renewal_that_nobody_reads_is_one_all_the_same(box):
    key = lock(box, '-t', '60s', 'x')
    reader, writer = os.pipe()
    os.close(reader)
    with open('/dev/full', 'wb') as full:
        refused = [printing_to(box, each, 'renew', '-t', '1h', 'x', key) for each in (full, writer)]
    os.close(writer)
    for result in refused:
        equal(result.returncode, 70, result)
        contains(result.stderr, f'the key is {key}\n')
        equal(result.stderr.count('\n'), 1, 'lines on stderr')
    assert left(box, 'x') > 3500000
    box.expect(0, 'unlock', 'x', key)


@test
def no_file_of_the_store_becomes_standard_output(box):
    key = lock(box, '-t', '1h', 'x')
    for closed in ((1,), (0, 1), (0, 1, 2)):
        done = subprocess.run([COMMAND, 'show', '--json'], cwd=box.path, env=box.environment,
                              check=False, timeout=PATIENCE,
                              preexec_fn=lambda: [os.close(fd) for fd in closed])
        equal(done.returncode, 70, closed)
    box.expect(0, 'unlock', 'x', key)


@test
def readers_can_be_locked_too(box):
    first, second = lock(box, '-s', 'x'), lock(box, '-s', 'x')
    box.expect(75, 'lock', '-n', '-W', 'x')
    box.expect(0, 'unlock', 'x', first)
    box.expect(0, 'unlock', 'x', second)
    box.expect(0, 'unlock', 'x', lock(box, '-n', '-W', 'x'))


if __name__ == '__main__':
    main()
