# SPDX-License-Identifier: Apache-2.0
"""`make demo` on a real server: it sells, and leaves none of its locks there."""
import pathlib
import shutil
import subprocess

from clitest import COMMAND, PATIENCE, Skip, contains, equal, main, test
from patients import Patient

SOURCES = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(COMMAND).resolve().parents[2]


def check_nothing_to_build():
    """What would be built first would take minutes, and change what other tests look at."""
    for command in ('make', 'ninja'):
        if not shutil.which(command):
            raise Skip(f'there is no {command}')
    told = subprocess.run(['ninja', '-n', '-C', BUILD], capture_output=True, text=True, check=False)
    if 'no work to do' not in told.stdout:
        raise Skip('there is something to build first')


@test
def the_demo_sells_on_a_server(box):
    check_nothing_to_build()
    server = Patient(box).server
    told = subprocess.run(['make', '-s', '-C', SOURCES, 'demo', f'BUILD={BUILD}',
                           f'URL={server.url}'], capture_output=True, text=True, check=False,
                          timeout=3 * PATIENCE)
    equal(told.returncode, 0, told.stdout + told.stderr)
    contains(told.stdout, 'OVERSOLD')
    contains(told.stdout, f'2. With holdfast, {server.url}')
    contains(told.stdout, '100 orders for 100 items: exactly')
    equal(box.expect(0, '-e', server.url, 'show', '--json').out.split(), ['[', ']'])
    left = [line for line in server.ask('KEYS', '*').split(b'\r\n')[2::2] if line]
    # Tokens go on for hours, so that whoever comes next has a higher one.
    equal([key for key in left if not key.startswith(b'redisson_lock_token:')], [])
    equal(len(left) > 0, True, 'whether the sale was on this server')


main()
