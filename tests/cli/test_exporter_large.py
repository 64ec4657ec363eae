# SPDX-License-Identifier: Apache-2.0
"""exporter: its figures with many names and waiters, and its page in a browser."""
import ctypes
import os
import re
import time

from clitest import equal, file_of, main, test, wait_until
from exporting import Exporter
from servers import start_redis

NAMES, WAITERS = 10_000, 1_000
DONE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)


class Crowd:
    """Two clients: one holds all names, the other waits for the first of them."""

    def __init__(self, url):
        self.library = ctypes.CDLL(os.environ['HOLDFAST_LIBRARY'])
        self.holders, self.waiters = (self.open(url) for _ in range(2))
        hold, request = ctypes.c_void_p(), ctypes.create_string_buffer(64)
        self.done = DONE(lambda *_: None)
        for number in range(NAMES):
            self.check(self.library.hf_lock(self.holders, f'orders/{number}'.encode(),
                                            ctypes.c_int64(0), None, ctypes.byref(hold)))
        for number in range(WAITERS):
            self.check(self.library.hf_lock_async(self.waiters, f'orders/{number}'.encode(),
                                                  ctypes.c_int64(-1), None, self.done, None,
                                                  request))

    def open(self, url):
        client = ctypes.c_void_p()
        self.check(self.library.hf_open(ctypes.byref(client), url.encode(), None))
        return client

    @staticmethod
    def check(code):
        equal(code, 0, 'an hf_code')

    def close(self):
        self.library.hf_close(self.waiters)
        self.library.hf_close(self.holders)


def peak_mb(pid):
    return int(re.search(r'VmHWM:\s*(\d+) kB', file_of(pid, 'status'))[1]) / 1024


def scrape(box, url, views):
    """As often as it takes to see so many views; the page is open beside it."""
    crowd = Crowd(url)
    exporter = Exporter(box, '-e', url, '--top', str(NAMES))
    events = exporter.events()
    wait_until(lambda: (exporter.value('store_holders'), exporter.value('store_waiters')) ==
               (NAMES, WAITERS), 'all are seen')
    times, texts = [], set()

    def scraped():
        begin = time.monotonic()
        text = exporter.ask('/metrics').text
        times.append(time.monotonic() - begin)
        equal(text.count('holdfast_lock_held{'), NAMES)
        # Ages are others in each view.
        texts.add(text)
        return len(texts) == views
    wait_until(scraped, f'{views} views')
    peak = peak_mb(exporter.process.pid)
    print(f'# {url}: scrapes took {min(times):.3f} to {max(times):.3f} s, peak {peak:.0f} MB',
          flush=True)
    assert min(times) < 1 and peak < 64, 'the limits are 1 s and 64 MB'
    events.close()
    crowd.close()


@test
def ten_thousand_names_of_this_machine_stay_within_the_limits(box):
    os.environ['HOLDFAST_DIR'] = box.file('store')
    scrape(box, 'local:', 5)


@test
def ten_thousand_names_on_redis_stay_within_the_limits(box):
    # A large store is looked at seldom.
    scrape(box, start_redis(box).url, 1)


main()
