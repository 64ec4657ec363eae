# SPDX-License-Identifier: Apache-2.0
"""What the tests of the package run on: the embedded engine, and a Redis server of their own.

$HOLDFAST_TEST_URL names another store, in the place of both.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests/lib"), str(ROOT / "tests/interop")]
from nothing_left import scratch_place  # noqa: E402
from sides import PATIENCE, SLOW, Server  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
URL = os.environ.get("HOLDFAST_TEST_URL")
SOON = 3 * SLOW  # seconds of a lease that a busy machine still renews in time

# Programs that a shell starts in the background ignore this signal, and so do those they start.
signal.signal(signal.SIGINT, signal.default_int_handler)


class OnStore(unittest.TestCase):
    """A test with a client; the subclasses say of which store."""
    lease = None  # SOON: the test waits for a loss, which is noticed at a renewal

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="holdfast-python-", dir=scratch_place())
        cls.addClassCleanup(shutil.rmtree, cls.directory, ignore_errors=True)
        cls.url = URL or cls.start()

    @classmethod
    def start(cls):
        os.mkdir(f"{cls.directory}/store", 0o700)
        return f"local://{cls.directory}/store"

    def setUp(self):
        import holdfast
        self.client = holdfast.Client(self.url, lease=self.lease)
        self.addCleanup(self.client.close)

    def child(self, code, *arguments):
        """A Python of its own; sys.argv[1] is the store's URL."""
        process = subprocess.Popen([sys.executable, "-c", code, self.url, *arguments],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(end, process)
        return process


def end(process):
    if process.poll() is None:
        process.kill()
    process.communicate()


class OnRedis(OnStore):
    """The same with a server."""

    @classmethod
    def setUpClass(cls):
        if URL:
            raise unittest.SkipTest("$HOLDFAST_TEST_URL names another store")
        super().setUpClass()

    @classmethod
    def start(cls):
        if not shutil.which("redis-server"):
            raise unittest.SkipTest("redis-server is not installed")
        cls.server = Server(cls.directory)
        cls.addClassCleanup(cls.server.stop)
        try:
            import holdfast
            holdfast.Client(cls.server.url).close()
        except holdfast.Invalid as error:
            raise unittest.SkipTest(f"no engine for Redis: {error}")
        return cls.server.url


__all__ = ["HERE", "ROOT", "URL", "PATIENCE", "SOON", "OnRedis", "OnStore", "Server"]
