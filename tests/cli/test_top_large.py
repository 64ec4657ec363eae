# SPDX-License-Identifier: Apache-2.0
"""top with many names and waiters: what its pictures cost, and that keys are answered meanwhile."""
import os
import time

from clitest import COMMAND, PATIENCE, equal, file_of, main, test
from crowd import NAMES, WAITERS, Crowd
from databases import Database
from screen import Screen
from servers import start_redis

if not os.path.exists(os.path.join(os.path.dirname(COMMAND), 'holdfast-top')):
    raise SystemExit('1..0 # SKIP there is no holdfast-top beside the command')

PICTURES = 4
TOTALS = f'{NAMES} names, {NAMES} held, {WAITERS} waiting'


def process_of(box):
    found = [pid for pid in box.inhabitants() if 'holdfast-top' in file_of(pid, 'comm')]
    equal(len(found), 1, 'the number of processes that are top')
    return found[0]


def processor_s(pid):
    """Of all threads; the kernel counts nanoseconds."""
    return sum(int(file_of(pid, f'task/{thread}/schedstat').split()[0])
               for thread in os.listdir(f'/proc/{pid}/task')) / 1e9


def look_often(box, url):
    """Pictures that follow the first one: it comes with the start of the program, at any price."""
    crowd = Crowd(url)
    screen = Screen(box, '-e', url, 'top')
    screen.until(lambda: TOTALS in screen.lines()[1], TOTALS)
    pid = process_of(box)
    pictures, used_s, since_s = {screen.lines()[1]}, processor_s(pid), time.monotonic()

    def is_other():
        line = screen.lines()[1]
        return TOTALS in line and line not in pictures and not pictures.add(line)
    for _ in range(PICTURES):
        screen.until(is_other, 'another picture')
    took_s = time.monotonic() - since_s
    share = (processor_s(pid) - used_s) / took_s
    print(f'# {url.split("@")[-1]}: {PICTURES} pictures in {took_s:.1f} s '
          f'with {100 * share:.1f} % of a processor', flush=True)
    assert share < 0.05, 'the limit is 5 %'
    screen.type('/orders/77\r')
    screen.until(lambda: '111 shown' in screen.lines()[-1], 'the names that are left')
    screen.leave()
    crowd.close()


@test
def ten_thousand_names_of_this_machine_cost_little(box):
    os.environ['HOLDFAST_DIR'] = box.file('store')
    look_often(box, 'local:')


@test
def ten_thousand_names_on_redis_cost_little(box):
    look_often(box, start_redis(box).url)


@test
def ten_thousand_names_in_a_database_cost_little(box):
    look_often(box, Database(box, 'postgres').url())


main(8 * PATIENCE)
