# SPDX-License-Identifier: Apache-2.0
"""Holds a lock whose owner is a thread, with the library of one version: the command's own locks
belong to requests. Prints the token, and ends when its input does.

usage: thread_owner.py LIBRARY URL NAME MODE TEXT
"""
import ctypes
import sys

FOREVER = -1


class LockOptions(ctypes.Structure):  # of hf_lock_options, as far as each version has it
    _fields_ = [('size', ctypes.c_size_t), ('mode', ctypes.c_int), ('permits', ctypes.c_uint32),
                ('limit', ctypes.c_uint32), ('lease_ms', ctypes.c_int64),
                ('owner', ctypes.c_uint64), ('owner_text', ctypes.c_char_p),
                ('on_lost', ctypes.c_void_p), ('lost_arg', ctypes.c_void_p),
                ('no_reentry', ctypes.c_bool)]


class Pointer(ctypes.c_void_p):
    pass


def main(library, url, name, mode, text):
    holdfast = ctypes.CDLL(library)
    holdfast.hf_token.restype = ctypes.c_uint64
    client, hold, options = Pointer(), Pointer(), LockOptions()
    holdfast.hf_lock_options_init(ctypes.byref(options), ctypes.c_size_t(ctypes.sizeof(options)))
    options.mode, options.owner_text = int(mode), text.encode()
    code = holdfast.hf_open(ctypes.byref(client), url.encode(), None)
    code = code or holdfast.hf_lock(client, name.encode(), ctypes.c_int64(FOREVER),
                                    ctypes.byref(options), ctypes.byref(hold))
    if code:
        sys.exit(f'thread_owner: the code is {code}')
    print(holdfast.hf_token(hold), flush=True)
    sys.stdin.readline()
    holdfast.hf_unlock(hold)
    holdfast.hf_close(client)


main(*sys.argv[1:])
