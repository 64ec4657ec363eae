# SPDX-License-Identifier: Apache-2.0
"""torture on a memcached server that the command starts itself, and strikes."""
import shutil

from clitest import Skip, contains, equal, main, test
from torturing import (LIMIT, all_hit_and_it_is_safe, has_each_fault_in_20_seconds, need_engine,
                       report_of)

# Beliefs, and the tokens of grants and of accepted writes.
RULES = ('S1', 'S3', 'S9')


@test
def a_server_that_stands_still_keeps_its_promise(box):
    if not shutil.which('memcached'):
        raise Skip('there is no memcached')
    need_engine(box, 'memcached://none?')
    all_hit_and_it_is_safe(['server-stop'], lambda: report_of(
        box, '--sandbox', 'memcached', '--time', '15s', '--faults', 'server-stop'), RULES)


@test
def run_of_20_seconds_has_each_fault(box):
    if not shutil.which('memcached'):
        raise Skip('there is no memcached')
    need_engine(box, 'memcached://none?')
    has_each_fault_in_20_seconds(box, 'memcached')


@test
def lease_that_memcached_cannot_count_is_refused(box):
    for store in (('--sandbox', 'memcached'), ('memcached://127.0.0.1:1', '-y')):
        result = box.run('torture', *store, '--time', '1s', '--lease', '1s')
        equal(result.code, 64, 'the exit code')
        contains(result.err, 'memcached counts whole seconds; give 2 s or more')


if __name__ == '__main__':
    main(LIMIT)
