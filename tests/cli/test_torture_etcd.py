# SPDX-License-Identifier: Apache-2.0
"""torture on etcd servers that the command starts itself, and strikes: they keep their promise."""
import shutil

from clitest import Skip, main, test
from torturing import LIMIT, all_hit_and_it_is_safe, need_engine, report_of

# Beliefs, and the tokens of grants and of accepted writes.
RULES = ('S1', 'S3', 'S9')


def sandbox(box):
    if not shutil.which('etcd'):
        raise Skip('there is no etcd server')
    need_engine(box, 'etcd://none?')


@test
def a_server_that_is_struck_keeps_its_promise(box):
    sandbox(box)
    faults = ['server-stop', 'server-kill']
    all_hit_and_it_is_safe(faults, lambda: report_of(
        box, '--sandbox', 'etcd', '--time', '10s', '--lease', '1s', '--faults',
        ','.join(faults)), RULES)


@test
def a_cluster_that_is_partitioned_keeps_its_promise(box):
    sandbox(box)

    def partitioned():
        report = report_of(box, '--sandbox', 'etcd-cluster', '--time', '12s', '--lease', '1s',
                           '--faults', 'partition')
        if report['plan']['unavailable']:
            raise Skip(report['plan']['unavailable_why'])
        return report
    all_hit_and_it_is_safe(['partition'], partitioned, RULES)


if __name__ == '__main__':
    main(LIMIT)
