# SPDX-License-Identifier: Apache-2.0
"""An exporter of a test's own, and what reads its answers."""
import base64
import http.client
import json
import os
import re
import shutil
import ssl
import subprocess

from clitest import PATIENCE, Skip, equal, wait_until

SAMPLE = re.compile(r'(?P<name>[a-z_]+)(?:\{(?P<labels>.*)\})? (?P<value>[0-9]+(?:\.[0-9]+)?)')
LABEL = re.compile(r'(\w+)="((?:[^"\\\n]|\\["\\n])*)"(,|$)')
ESCAPES = {r'\n': '\n', r'\"': '"', r'\\': '\\'}


def labels_of(text):
    """The labels between the braces; nothing may be left over."""
    labels, at = {}, 0
    while at < len(text):
        found = LABEL.match(text, at)
        assert found and found[1] not in labels, f'no label: {text[at:]!r} of {text!r}'
        labels[found[1]] = re.sub(r'\\.', lambda escape: ESCAPES[escape[0]], found[2])
        at = found.end()
    return labels


def parse(text):
    """{family: {labels: value}}, with each rule of the format that a scrape may trip over."""
    families, current = {}, None
    lines = text.split('\n')
    equal(lines[-2:], ['# EOF', ''], 'the end')
    helped = None
    for line in lines[:-2]:
        if line.startswith('# HELP '):
            helped = line.split(' ')[2]
            assert helped not in families and len(line.split(' ')) > 3, line
        elif line.startswith('# TYPE '):
            current = line.split(' ')[2]
            equal(line, f'# TYPE {current} gauge')
            equal(helped, current, 'the help before the type')
            families[current] = {}
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample, f'no sample: {line!r}'
            equal(sample['name'], current, 'the samples of a family follow its type')
            labels = frozenset(labels_of(sample['labels'] or '').items())
            assert labels not in families[current], f'twice: {line!r}'
            families[current][labels] = float(sample['value'])
    return families


class Answer:
    def __init__(self, response):
        self.status, self.headers = response.status, response.headers
        self.text = response.read().decode()


class Exporter:
    """Listens on a port that the system has chosen."""

    def __init__(self, box, *options, **more):
        if os.environ['HOLDFAST_EXPORTER'] != 'yes':
            raise Skip('this build has no exporter: libmicrohttpd was not found')
        self.err = box.file(f'exporter-{len(box.processes)}')
        with open(self.err, 'wb') as err:
            self.process = box.start('exporter', '--listen', '127.0.0.1:0', '--interval', '100ms',
                                     *options, stderr=err, **more)
        found = wait_until(lambda: re.search(r'(https?)://127\.0\.0\.1:(\d+)/', self.said()),
                           'where the exporter listens')
        self.url, self.scheme, self.port = found[0], found[1], int(found[2])
        self.context = None

    def said(self):
        with open(self.err, encoding='utf-8', errors='replace') as file:
            text = file.read()
        assert self.process.popen.poll() is None, f'the exporter has ended: {text}'
        return text

    def connect(self):
        if self.scheme == 'https':
            return http.client.HTTPSConnection('127.0.0.1', self.port, timeout=PATIENCE,
                                               context=self.context)
        return http.client.HTTPConnection('127.0.0.1', self.port, timeout=PATIENCE)

    def ask(self, path, method='GET', body=None, **headers):
        connection = self.connect()
        named = {key.replace('_', '-'): value for key, value in headers.items()}
        connection.request(method, path, body, named)
        try:
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def status(self, path, **headers):
        return self.ask(path, **headers).status

    def metrics(self):
        answer = self.ask('/metrics')
        equal(answer.status, 200, answer.text)
        return parse(answer.text)

    def value(self, family, **labels):
        """None: there is no such sample."""
        return self.metrics().get(f'holdfast_{family}', {}).get(frozenset(labels.items()))

    def wait_for(self, wanted, family, **labels):
        wait_until(lambda: self.value(family, **labels) == wanted, f'{family} {labels} is {wanted}')

    def events(self):
        return Events(self)

    def end(self, signal):
        self.process.signal(signal)
        return self.process.end()


class Events:
    """The state that the page is told, as often as it changes."""

    def __init__(self, exporter):
        self.connection = exporter.connect()
        self.connection.request('GET', '/events')
        self.response = self.connection.getresponse()
        equal(self.response.status, 200)
        equal(self.response.headers['Content-Type'], 'text/event-stream; charset=utf-8')

    def next(self):
        while True:
            line = self.response.readline()
            assert line, 'the events have ended'
            if line.startswith(b'data: '):
                return json.loads(line[6:])

    def wait_for(self, condition):
        """Reads states until one is right, and answers it."""
        while True:
            state = self.next()
            if condition({lock['name']: lock for lock in state['locks']}):
                return state

    def close(self):
        self.response.close()
        self.connection.close()


def basic(password):
    return 'Basic ' + base64.b64encode(f'any:{password}'.encode()).decode()


def certificate(box):
    """A certificate for 127.0.0.1 and its key, and what trusts them."""
    if not shutil.which('openssl'):
        raise Skip('there is no openssl')
    cert, key = box.file('cert.pem'), box.file('key.pem')
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt',
                    'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2', '-subj', '/CN=test',
                    '-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', key, '-out', cert],
                   check=True, capture_output=True, timeout=PATIENCE)
    return cert, key, ssl.create_default_context(cafile=cert)
