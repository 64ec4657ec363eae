# SPDX-License-Identifier: Apache-2.0
"""torture on a memcached server that the command starts itself, and strikes."""
import shutil

from clitest import Skip, main, test
from torturing import LIMIT, all_hit_and_it_is_safe, need_engine, report_of

# Beliefs, and the tokens of grants and of accepted writes.
RULES = ('S1', 'S3', 'S9')


@test
def a_server_that_stands_still_keeps_its_promise(box):
    if not shutil.which('memcached'):
        raise Skip('there is no memcached')
    need_engine(box, 'memcached://none?')
    # A lease there has a second at least, and the run's have from 0.6 times this length on.
    all_hit_and_it_is_safe(['server-stop'], lambda: report_of(
        box, '--sandbox', 'memcached', '--time', '15s', '--lease', '2s', '--faults',
        'server-stop'), RULES)


if __name__ == '__main__':
    main(LIMIT)
