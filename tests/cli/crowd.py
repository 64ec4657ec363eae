# SPDX-License-Identifier: Apache-2.0
"""Very many names that are held, some of them waited for, by clients in the test's process."""
import ctypes
import os

from clitest import equal

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
