#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program with $HOLDFAST_TEST_URL naming etcd servers of its own, ended with it.

usage: with_etcd.py [--place cluster|tls|users] PROGRAM [ARGUMENT...]
       with_etcd.py [--place cluster|tls|users] --each PROGRAM...

The place is one server, a cluster of three, one that is reached by TLS with a certificate of the
client's, or one with users. Several programs run one after another at the same servers, and what
they print is one list of tests.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import etcd_server  # noqa: E402
from each_program import run_each  # noqa: E402
from nothing_left import die_with_parent, scratch_place  # noqa: E402


def main():
    words = sys.argv[1:]
    place = None
    if words[0] == "--place":
        place, *words = words[1:]
    why = etcd_server.missing()
    if why:
        print(f"1..0 # SKIP {why}")
        return 0
    with tempfile.TemporaryDirectory(prefix="holdfast-etcd-", dir=scratch_place()) as directory:
        cluster = etcd_server.Cluster(directory, members=3 if place == "cluster" else 1,
                                      secured=place == "tls", users=place == "users")
        environment = dict(os.environ, HOLDFAST_TEST_URL=cluster.url())
        if words[0] == "--each":
            status = run_each(words[1:], environment)
        else:
            status = subprocess.call(words, env=environment, preexec_fn=die_with_parent)
        cluster.end()
    return status if status >= 0 else 128 - status


sys.exit(main())
