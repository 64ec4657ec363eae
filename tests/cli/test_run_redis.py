"""run on Redis: what a nested run makes of the outer one's hold, and what the command is told."""
import os
import pathlib
import shutil
import sys

from clitest import COMMAND, PATIENCE, Skip, contains, equal, main, test

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'interop'))
from sides import Server  # noqa: E402

# Nobody waits so long whose test is all right.
LONG = f'{PATIENCE / 2}s'
# What a nested run goes by has to hold where the store tells less, too.
STORES = ('', '?format=simple', '?fence=off')


def start_server(box, *options):
    if os.environ['HOLDFAST_REDIS'] != 'yes':
        raise Skip('this build has no engine for Redis')
    if not shutil.which('redis-server'):
        raise Skip('there is no redis-server')
    directory = box.file(f'server-{len(box.processes)}')
    os.mkdir(directory)
    server = Server(directory, *options)
    box.processes.append(server)
    return server


def nested(url, outer, inner, command='run'):
    """The words of `holdfast run OUTER -- holdfast run INNER -- echo inner`: nobody waits."""
    return ('-e', url, command, *outer, '--', COMMAND, '-e', url, 'run', '-w', LONG, *inner, '--',
            'echo', 'inner')


@test
def a_nested_run_of_the_same_name_reenters(box):
    url = start_server(box).url
    for store in STORES:
        told = box.expect(0, *nested(url + store, ['z'], ['z']))
        equal(told.out, 'inner\n', store)
        script = (f'echo $HOLDFAST_TOKEN; {COMMAND} -e "{url}{store}" run -w {LONG} z -- '
                  f'{COMMAND} -e "{url}{store}" run -w {LONG} z -c \'echo $HOLDFAST_TOKEN\'')
        tokens = box.expect(0, '-e', url + store, 'run', 'z', '-c', script).out.split()
        equal(len(set(tokens)), 1, f'{store}: the tokens {tokens}')
    for outer, inner in (('-s', '-s'), ('-W', '-W'), ('-W', '-s'), ('-F', '-F')):
        told = box.expect(0, *nested(url, [outer, 'z' + outer], [inner, 'z' + outer]))
        equal(told.out, 'inner\n', (outer, inner))
    equal(box.expect(0, *nested(url, ['-l', 'a', '-l', 'b'], ['-l', 'b'])).out, 'inner\n')
    box.expect(0, '-e', url, 'try', 'z', 'true')


@test
def a_nested_run_that_wants_more_is_refused(box):
    url = start_server(box).url
    for outer, inner in ((['-s', 'z'], ['-W', 'z']), (['z'], ['-s', 'z']),
                         (['-l', 'a'], ['-l', 'a', '-l', 'b'])):
        contains(box.expect(64, *nested(url, outer, inner)).err, 'waiting would never end')


@test
def a_nested_run_at_a_quorum_reenters(box):
    servers = [start_server(box) for _ in range(3)]
    url = 'quorum:' + ','.join(server.url for server in servers)
    equal(box.expect(0, *nested(url, ['z'], ['z'])).out, 'inner\n')


@test
def another_name_or_store_is_not_held(box):
    one, other = start_server(box).url, start_server(box).url
    box.expect(0, '-e', one, 'run', 'z', '--',
               COMMAND, '-e', other, 'run', 'z', '--',
               COMMAND, '-e', one, 'run', 'y', '--',
               COMMAND, '-e', other, 'run', 'z', '--', 'true')


if __name__ == '__main__':
    main()
