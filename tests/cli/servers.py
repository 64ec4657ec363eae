# SPDX-License-Identifier: Apache-2.0
"""A Redis server of a test's own, where there can be one."""
import os
import pathlib
import shutil
import sys

from clitest import Skip

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'interop'))
from sides import Server  # noqa: E402


def need_redis_engine():
    if os.environ['HOLDFAST_REDIS'] != 'yes':
        raise Skip('this build has no engine for Redis')


def need_redis():
    need_redis_engine()
    if not shutil.which('redis-server'):
        raise Skip('there is no redis-server')


def start_redis(box, *options, environment=None):
    """It ends with the test's other processes."""
    need_redis()
    directory = box.file(f'server-{len(box.processes)}')
    os.mkdir(directory)
    server = Server(directory, *options, environment=environment)
    box.processes.append(server)
    return server
