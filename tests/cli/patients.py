# SPDX-License-Identifier: Apache-2.0
"""Redis servers that doctor looks at."""
import json
import os
import pathlib
import socket
import sys
import threading

from clitest import contains, equal
from servers import need_redis, start_redis

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'interop'))
from sides import Cluster  # noqa: E402

# What a server must be told so that nothing is wrong with it.
DURABLE = ('--appendonly', 'yes', '--appendfsync', 'always')


class Patient:
    """A server, and what doctor says of it."""

    def __init__(self, box, *options, environment=None):
        self.box = box
        self.server = start_redis(box, *options, environment=environment)
        self.directory = self.server.directory

    def set(self, *words):
        equal(self.server.ask(*words), b'+OK\r\n', ' '.join(words))

    def see(self, code=None, user='', options='', name=None):
        """The facts by name, and the findings."""
        facts, findings = self.see_all(code, user, options, name)
        return facts, [each['finding'] for each in findings]

    def see_all(self, code=None, user='', options='', name=None):
        """The facts by name, and the findings with their consequences and cures."""
        url = self.server.url.replace('//', f'//{user}') + options
        result = self.box.run('-e', url, 'doctor', '--json', *([name] if name else []))
        said = json.loads(result.out)
        findings = [each for each in said if 'finding' in each]
        wanted = code if code is not None else 1 if findings else 0
        equal(result.code, wanted, f'the exit status; {result}')
        for each in findings:
            assert each['consequence'] and each['cure'] and each['id'], each
        return {each['fact']: each['value'] for each in said if 'fact' in each}, findings


def fixes(told):
    """The lines of doctor --fix that are no comments; each finding of Redis has some lines."""
    return [line for line in told.splitlines() if line and not line.startswith('# ')]


def only(findings, part):
    equal(len(findings), 1, f'the number of {findings}')
    contains(findings[0], part)


def start_cluster(box):
    need_redis()
    directory = box.file('cluster')
    os.mkdir(directory)
    cluster = Cluster(directory)
    box.processes += cluster.nodes
    return cluster


class Passer:
    """Stands between, and passes on what both sides say, with words of the server's replaced."""

    def __init__(self, port, replaced=None):
        self.to, self.replaced = port, replaced or {}
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.url = f'redis://127.0.0.1:{self.listener.getsockname()[1]}'
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            server = socket.create_connection(('127.0.0.1', self.to))
            for source, sink in (client, server), (server, client):
                threading.Thread(target=self.pass_on, args=(source, sink), daemon=True).start()

    def pass_on(self, source, sink):
        try:
            while said := source.recv(65536):
                for words, others in self.replaced.items():
                    said = said.replace(words, others)
                sink.sendall(said)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass
