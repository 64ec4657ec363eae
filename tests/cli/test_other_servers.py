# SPDX-License-Identifier: Apache-2.0
"""A URL at a port where a server of another kind listens, or one that says nothing."""
import socket
import threading

from clitest import contains, main, test
from torturing import UNKNOWN_SCHEME

SCHEMES = ('redis', 'zk', 'etcd', 'memcached', 'postgres', 'mysql')
# Redis may have renamed its commands: no wait helps.
USAGE, UNREACHABLE = 64, 69


class Other:
    """Sends the same words to each client, or none, and keeps the connection open."""

    def __init__(self, words):
        self.words, self.kept = words, []
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            stream, _ = self.listener.accept()
            self.kept.append(stream)
            stream.sendall(self.words)


def complaints(box, words):
    """What `try` says at such a server, by the scheme of its URL."""
    other = Other(words)
    for scheme in SCHEMES:
        path = '/x' if scheme in ('zk', 'postgres', 'mysql') else ''
        url = f'{scheme}://127.0.0.1:{other.port}{path}?timeout=1000'
        result = box.run('-e', url, 'run', '-w', '1500ms', 'name', '--', 'true')
        if UNKNOWN_SCHEME in result.err:
            continue
        last = result.err.strip().splitlines()[-1]
        contains(last, str(other.port))
        assert 'cleans up' not in last, last
        yield scheme, result.code, last


@test
def server_of_another_kind_is_named_with_what_is_wrong(box):
    for scheme, code, said in complaints(box, b'-ERR unknown command\r\n' * 5):
        wanted = USAGE if scheme == 'redis' else UNREACHABLE
        assert code == wanted, (scheme, code, said)


@test
def server_that_says_nothing_is_named(box):
    for scheme, code, said in complaints(box, b''):
        assert code == UNREACHABLE and ('answer' in said or 'in time' in said), (scheme, code, said)


main()
