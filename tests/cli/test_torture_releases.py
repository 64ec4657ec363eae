# SPDX-License-Identifier: Apache-2.0
"""torture with releases that come late or twice, and with errors in place of replies, in each
sandbox: nothing is found, and what tests/mutants/optional/torture_engines.list breaks is."""
import pathlib
import shutil
import sys

from clitest import Skip, main, test
from torturing import LIMIT, all_hit_and_it_is_safe, need_engine, report_of

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'lib'))
from sql_servers import missing  # noqa: E402

FAULTS = ['late-release', 'error-reply']
# Beliefs, refusals, losses, and the tokens of grants and of accepted writes.
RULES = ('S1', 'S3', 'S4', 'S9', 'L5')


def is_safe_in(box, sandbox, program, url):
    why = missing(sandbox) if sandbox in ('postgres', 'mariadb') else not shutil.which(program)
    if why:
        raise Skip(why if isinstance(why, str) else f'there is no {program}')
    need_engine(box, url)
    all_hit_and_it_is_safe(FAULTS, lambda: report_of(
        box, '--sandbox', sandbox, '--time', '30s', '--faults', ','.join(FAULTS)), RULES)


@test
def redis(box):
    is_safe_in(box, 'redis', 'redis-server', 'redis+unix:///none')


@test
def postgres(box):
    is_safe_in(box, 'postgres', 'postgres', 'postgres://none?')


@test
def mariadb(box):
    is_safe_in(box, 'mariadb', 'mariadbd', 'mariadb://none?')


@test
def etcd(box):
    is_safe_in(box, 'etcd', 'etcd', 'etcd://none?')


@test
def zookeeper(box):
    is_safe_in(box, 'zookeeper', 'java', 'zk://none?')


@test
def memcached(box):
    is_safe_in(box, 'memcached', 'memcached', 'memcached://none?')


if __name__ == '__main__':
    main(LIMIT)
