# SPDX-License-Identifier: Apache-2.0
"""trace:URL prints what passes between the core and the engine for URL."""
import os
import re
import subprocess

from clitest import Skip, contains, equal, main, test, wait_until
from servers import start_redis


def lines_of(text):
    """The lines of a trace, without their times."""
    return re.findall(r'^trace: \d+\.\d{3} ms  (.*)$', text, re.MULTILINE)


def is_in_order(lines, patterns):
    """Each pattern matches a line behind the one of the pattern before."""
    rest = iter(lines)
    for pattern in patterns:
        assert any(re.search(pattern, line) for line in rest), (pattern, lines)


def need_redis():
    if os.environ.get('HOLDFAST_REDIS') == 'no':
        raise Skip('this build has no engine for Redis')


@test
def embedded_engine_is_traced_from_open_to_close(box):
    told = box.expect(0, '-e', 'trace:local:', 'try', 'x y', 'echo', 'ran')
    equal(told.out, 'ran\n')
    is_in_order(lines_of(told.err), [
        r'^open local:, engine "local"$', r'^attempt "x y" #\d+: mutex$',
        r'^  "x y" #\d+: granted, token \d+$', r'^release "x y" #\d+: keep nothing$',
        r'^  "x y" #\d+: gone$', r'^close$', r'^closed$'])


@test
def options_of_the_url_reach_the_inner_engine(box):
    box.hold('x', '-N', 'jobs')
    told = box.expect(75, '-e', 'trace:local:?ns=jobs', 'try', 'x', 'true')
    is_in_order(lines_of(told.err), [r'^attempt "x"', r'^  "x" #\d+: refused, again'])
    contains(box.expect(64, '-e', 'trace:local:?colour=red', 'try', 'x', 'true').err,
             'the engine "local" has no option "colour"')


@test
def escaped_bytes_of_a_path_are_decoded_once(box):
    directory = box.file('a%41?b')
    box.expect(0, '-e', f'trace:local://{box.path}/a%2541%3Fb', 'try', 'x', 'true')
    assert os.path.isdir(directory), os.listdir(box.path)


@test
def url_without_an_engine_to_trace_is_refused(box):
    contains(box.expect(64, '-e', 'trace:', 'try', 'x', 'true').err, 'stands behind "trace:"')
    for inner, reason in (('trace:local:', 'a trace of a trace'), ('nonsense:x', 'no scheme')):
        contains(box.expect(64, '-e', f'trace:{inner}', 'try', 'x', 'true').err, reason)


@test
def control_bytes_of_a_name_begin_no_line(box):
    told = box.expect(0, '-e', 'trace:local:', 'try', 'x\ntrace: 1.000 ms  forged', 'true')
    assert 'forged' not in lines_of(told.err), told


def start_traced(box, url, *words):
    """A command with its trace in a file, and what reads that."""
    with open(box.file('trace'), 'wb') as errors:
        process = box.start('-e', url, *words, stderr=errors)

    def read():
        with open(box.file('trace'), encoding='utf-8') as file:
            return file.read()
    return process, read


@test
def waiter_on_redis_is_refused_woken_and_granted(box):
    need_redis()
    server = start_redis(box)
    holder = box.start('-e', server.url, 'run', 'x', '--', 'sh', '-c', 'echo held; read end',
                       stdin=subprocess.PIPE)
    equal(holder.line(), 'held')
    waiter, trace = start_traced(box, f'trace:{server.url}', 'run', 'x', 'true')
    wait_until(lambda: ': refused' in trace(), 'a refusal')
    holder.popen.communicate()
    equal(waiter.end().code, 0)
    is_in_order(lines_of(trace()), [
        r'^attempt "x" #\d+: mutex, enqueue$', r'^  "x" #\d+: refused', r'^  "x" #\d+: woken$',
        r'^attempt "x" #\d+: mutex, enqueue$',
        r'^  "x" #\d+: granted, token \d+, rests on its own lease of \d+ ms$',
        r'^release "x" #\d+: keep nothing$', r'^  "x" #\d+: gone$'])


@test
def renewals_and_passwords_on_redis(box):
    need_redis()
    server = start_redis(box)
    equal(server.ask('ACL', 'SETUSER', 'bob', 'on', '>hushword', '~*', '&*', '+@all'), b'+OK\r\n')
    url = f'trace:{server.url}'.replace('//', '//bob:hushword@')
    holder, trace = start_traced(box, url, 'run', '-t', '600ms', 'x', '--', 'sleep', '1000')
    wait_until(lambda: ': renewed after' in trace(), 'a renewal')
    is_in_order(lines_of(trace()), [r': granted', r'^renew lease', r'^  lease \S+: renewed after'])
    assert 'hushword' not in trace(), trace()
    assert server.ask('DEL', 'x')
    wait_until(lambda: re.search(r'lease \S+: gone after', trace()), 'the loss')
    equal(holder.end().code, 121)


main()
