# SPDX-License-Identifier: Apache-2.0
"""exporter: its figures with many names and waiters, and its page in a browser."""
import json
import os
import re
import shutil
import signal
import subprocess
import time

from clitest import Skip, contains, equal, file_of, main, test, wait_until
from crowd import NAMES, WAITERS, Crowd
from databases import Database
from exporting import Exporter
from servers import start_redis


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
    print(f'# {url.split("@")[-1]}: scrapes took {min(times):.3f} to {max(times):.3f} s, '
          f'peak {peak:.0f} MB', flush=True)
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


@test
def ten_thousand_names_in_a_database_stay_within_the_limits(box):
    scrape(box, Database(box, 'postgres').url(), 1)


class Browser:
    """Chromium without a window, told what to do through pipes as its developer tools do."""

    def __init__(self, box):
        program = next(filter(None, map(shutil.which, ('chromium-headless-shell', 'chromium'))),
                       None)
        if not program:
            raise Skip('there is no chromium: apt-get install chromium-headless-shell')
        read, self.write = os.pipe()
        self.read, write = os.pipe()
        # It reads descriptor 3 and writes 4: the shell gives them those numbers.
        self.process = box.start(
            '-c', f'exec "$@" 3<&{read} 4>&{write}', 'sh', program, '--headless', '--no-sandbox',
            '--disable-gpu', '--remote-debugging-pipe', f'--user-data-dir={box.file("profile")}',
            command='/bin/sh', stderr=subprocess.DEVNULL, descriptors=(read, write))
        os.close(read)
        os.close(write)
        self.count, self.session, self.left = 0, None, b''
        target = self.call('Target.createTarget', url='about:blank')['targetId']
        self.session = self.call('Target.attachToTarget', targetId=target,
                                 flatten=True)['sessionId']

    def call(self, method, **parameters):
        """The result of a command; events that come before it are left out."""
        self.count += 1
        message = {'id': self.count, 'method': method, 'params': parameters}
        if self.session:
            message['sessionId'] = self.session
        os.write(self.write, json.dumps(message).encode() + b'\0')
        while True:
            while b'\0' not in self.left:
                more = os.read(self.read, 1 << 16)
                assert more, 'the browser has ended'
                self.left += more
            line, _, self.left = self.left.partition(b'\0')
            answer = json.loads(line)
            if answer.get('id') == self.count:
                assert 'error' not in answer, answer
                return answer['result']

    def evaluate(self, expression):
        result = self.call('Runtime.evaluate', expression=expression, returnByValue=True)
        assert 'exceptionDetails' not in result, result
        return result['result'].get('value')

    def wait_for(self, wanted, expression):
        wait_until(lambda: self.evaluate(expression) == wanted, f'{expression} is {wanted!r}')

    def close(self):
        os.close(self.write)
        os.close(self.read)


def rows(column):
    return f'[...document.querySelectorAll("#locks td:nth-child({column})")].map(c => c.innerText)'


@test
def page_in_a_browser_shows_hostile_names_as_text_and_each_change(box):
    browser = Browser(box)
    exporter = Exporter(box)
    browser.call('Page.navigate', url=exporter.url)
    browser.wait_for('names in use: 0, holders: 0, waiters: 0', 'document.body?.querySelector('
                     '"#status")?.innerText')
    hostile = '<img src=x onerror="window.hacked=1"></script><script>window.hacked=1</script>'
    holder = box.hold(hostile, '-F', '--owner', 'the <b>holder</b>')
    browser.wait_for([hostile], rows(1))
    box.start('run', '-F', '--owner', f'waiter {hostile}', hostile, 'true')
    box.wait_for_waiters(hostile)
    browser.wait_for('names in use: 1, holders: 1, waiters: 1',
                     'document.querySelector("#status").innerText')
    for column, owner in ((3, 'the <b>holder</b>'), (4, f'waiter {hostile}')):
        contains(browser.evaluate(rows(column))[0], owner)
    browser.wait_for([f'waiter {hostile} waits for {hostile}, which the <b>holder</b> holds'],
                     '[...document.querySelectorAll("#graph .edge title")].map(t => t.textContent)')
    browser.wait_for(True, 'document.querySelectorAll(".strip .waited").length > 0')
    contains(browser.evaluate('document.querySelector(".strip title").textContent'), 'held in')
    equal(browser.evaluate('window.hacked'), None)
    equal(browser.evaluate('document.querySelectorAll("img, b, script").length'), 1, 'elements')
    equal(browser.evaluate('performance.getEntriesByType("resource").map(e => e.name)'
                           '.filter(n => !n.startsWith(location.origin))'), [], 'from elsewhere')
    holder.signal(signal.SIGTERM)
    browser.wait_for('names in use: 0, holders: 0, waiters: 0',
                     'document.querySelector("#status").innerText')
    browser.wait_for([hostile], rows(1))
    exporter.end(signal.SIGTERM)
    browser.wait_for('The exporter does not answer. Trying again.',
                     'document.querySelector("#status").innerText')
    browser.close()


@test
def page_that_is_refused_follows_once_there_is_room(box):
    browser = Browser(box)
    exporter = Exporter(box)
    others = [exporter.events() for _ in range(16)]
    browser.call('Page.navigate', url=exporter.url)
    browser.wait_for('The exporter refuses to tell of changes. Trying again.',
                     'document.body?.querySelector("#status")?.innerText')
    for other in others:
        other.close()
    browser.wait_for('names in use: 0, holders: 0, waiters: 0',
                     'document.querySelector("#status").innerText')
    browser.close()


main()
