# SPDX-License-Identifier: Apache-2.0
"""sem, counter, latch."""
import json
import signal

from clitest import contains, equal, main, test


@test
def semaphores_are_set_and_looked_at(box):
    contains(box.expect(64, 'sem', 's', 'get').err, 'no semaphore')
    box.expect(0, 'sem', 's', 'set', '4')
    equal(box.expect(0, 'sem', 's', 'get').out, '4\n')
    holder = box.hold('s', '-k', '3')
    equal(box.expect(0, 'sem', 's', 'get').out, '1\n')
    equal(json.loads(box.expect(0, 'sem', '--json', 's', 'get').out),
          {'name': 's', 'total': 4, 'free': 1})
    box.expect(0, 'sem', 's', 'set', '2')
    box.expect(75, 'try', '-k', '1', 's', 'true')
    for words in ('rm',), ('set', '0'):
        contains(box.expect(75, 'sem', 's', *words).err,
                 '"s": permits of it are held, so it is not removed')
    holder.signal(signal.SIGTERM)
    holder.end()
    equal(box.expect(0, 'sem', 's', 'get').out, '2\n')
    box.expect(0, 'sem', 's', 'rm')
    box.expect(64, 'sem', 's', 'get')


@test
def permits_of_a_missing_semaphore_are_refused(box):
    for name, typed in (('s', 's'), ('a/b-c_d.1', 'a/b-c_d.1'), ('two words', 'NAME')):
        hint = f'holdfast sem {typed} set M'
        contains(box.expect(64, 'try', '-k', '2', name, 'true').err, hint)
        contains(box.expect(64, 'sem', name, 'get').err, hint)


@test
def what_is_no_semaphore_is_not_to_be_made_one(box):
    box.expect(0, 'counter', 'c', 'set', '4')
    told = box.expect(64, 'sem', 'c', 'get').err
    contains(told, '`holdfast counter c get`')
    box.expect(0, 'latch', 'l', 'set', '4')
    contains(box.expect(64, 'sem', 'l', 'get').err, "'l' is in use as a latch")
    box.expect(0, 'try', 'm', 'true')
    contains(box.expect(64, 'sem', 'm', 'get').err, '`holdfast sem m set M`')
    box.expect(0, 'sem', 'm', 'set', '4')


@test
def a_semaphore_of_another_size_names_the_cure(box):
    box.expect(0, 'try', '-j', '4', 's', 'true')
    contains(box.expect(64, 'try', '-j', '5', 's', 'true').err, 'holdfast sem s set 5')
    contains(box.expect(64, 'try', 's', 'true').err, 'holdfast sem s rm')
    box.expect(0, 'sem', 's', 'set', '5')
    box.expect(0, 'try', '-j', '5', 's', 'true')
    box.expect(0, 'sem', 's', 'rm')
    box.expect(0, 'try', 's', 'true')


@test
def killed_holders_give_their_permits_back(box):
    holder = box.hold('s', '-j', '1')
    waiting = box.start('run', '-j', '1', 's', '--', 'echo', 'mine')
    box.wait_for_waiters('s')
    holder.signal(signal.SIGKILL)
    equal(waiting.end().out, 'mine\n')


@test
def counters_count(box):
    box.expect(0, 'counter', 'c', 'set', '10')
    box.expect(0, 'counter', 'c', 'add', '5')
    box.expect(0, 'counter', 'c', 'add')
    box.expect(0, 'counter', 'c', 'take', '6')
    box.expect(0, 'counter', 'c', 'take')
    equal(box.expect(0, 'counter', 'c', 'get').out, '9\n')
    equal(json.loads(box.expect(0, 'counter', '--json', 'c', 'get').out), {'name': 'c', 'value': 9})
    box.expect(75, 'counter', '-n', 'c', 'take', '10')
    box.expect(75, 'counter', '-w', '50ms', 'c', 'take', '10')
    contains(box.expect(64, 'counter', 'c', 'take', '0').err, 'taking 0')
    box.expect(0, 'counter', 'c', 'add', '0')
    equal(box.expect(0, 'counter', 'c', 'get').out, '9\n')
    box.expect(0, 'counter', 'c', 'rm')
    equal(box.expect(0, 'counter', 'c', 'get').out, '0\n')


@test
def takers_wait_for_what_is_added(box):
    box.expect(0, 'counter', 'c', 'set', '1')
    taking = box.start('counter', 'c', 'take', '3')
    box.wait_for_waiters('c')
    box.expect(0, 'counter', 'c', 'add', '4')
    equal(taking.end().code, 0)
    equal(box.expect(0, 'counter', 'c', 'get').out, '2\n')


@test
def counters_do_not_overflow(box):
    box.expect(0, 'counter', 'c', 'set', '4294967295')
    box.expect(69, 'counter', 'c', 'add')
    box.expect(64, 'counter', 'c', 'set', '4294967296')
    equal(box.expect(0, 'counter', 'c', 'get').out, '4294967295\n')


@test
def latches_open_at_zero(box):
    box.expect(0, 'latch', 'l', 'wait')
    box.expect(0, 'latch', 'l', 'set', '3')
    contains(box.expect(75, 'latch', 'l', 'set', '3').err, "set again once it is at 0")
    contains(box.expect(75, 'latch', '-n', 'l', 'wait').err, "latch 'l' is at 3, and opens at 0")
    equal(box.expect(75, '-q', 'latch', 'l', 'set', '3').err, '')
    equal(box.expect(75, '-q', 'latch', '-n', 'l', 'wait').err, '')
    box.expect(75, 'latch', '-w', '50ms', 'l', 'wait')
    equal(box.expect(0, 'latch', 'l', 'down').out, '2\n')
    waiting = [box.start('latch', 'l', 'wait') for _ in range(3)]
    box.wait_for_waiters('l', 3)
    equal(box.expect(0, 'latch', 'l', 'get').out, '2\n')
    equal(box.expect(0, 'latch', '--json', 'l', 'down', '2').out, '{"name":"l","left":0}\n')
    for process in waiting:
        equal(process.end().code, 0)


@test
def a_counter_says_what_it_lacks(box):
    box.expect(0, 'counter', 'c', 'set', '2')
    contains(box.expect(75, 'counter', '-n', 'c', 'take', '3').err,
             "counter 'c' is at 2, and that is not enough")
    equal(box.expect(75, '-q', 'counter', '-n', 'c', 'take', '3').err, '')


@test
def a_wait_for_a_latch_can_be_interrupted(box):
    box.expect(0, 'latch', 'l', 'set', '1')
    waiting = box.start('latch', 'l', 'wait')
    box.wait_for_waiters('l')
    waiting.signal(signal.SIGINT)
    equal(waiting.end().code, 130)
    equal(box.count('waiters', 'l'), 0)


@test
def a_name_is_one_thing_at_a_time(box):
    box.expect(0, 'latch', 'x', 'set', '1')
    for words in (('try', 'x', 'true'), ('counter', 'x', 'add'), ('sem', 'x', 'set', '2')):
        result = box.expect(64, *words)
        assert result.err.startswith('holdfast: '), result.err


if __name__ == '__main__':
    main()
