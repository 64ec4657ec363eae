# SPDX-License-Identifier: Apache-2.0
"""torture on databases that the command starts itself, and strikes: they keep their promise."""
import os
import pathlib
import sys

from clitest import Skip, main, test
from torturing import LIMIT, all_hit_and_it_is_safe, has_each_fault_in_20_seconds, report_of

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'lib'))
from sql_servers import missing  # noqa: E402

FAULTS = ['server-stop', 'server-kill']
# Beliefs, and the tokens of grants and of accepted writes.
RULES = ('S1', 'S3', 'S9')


def keeps_its_promise(box, kind, variable):
    if os.environ[variable] != 'yes' or missing(kind):
        raise Skip(missing(kind) or f'this build has no engine for {kind}')
    all_hit_and_it_is_safe(FAULTS, lambda: report_of(
        box, '--sandbox', kind, '--time', '12s', '--lease', '1s', '--faults', ','.join(FAULTS)),
        RULES)


@test
def mariadb_that_is_struck_keeps_its_promise(box):
    keeps_its_promise(box, 'mariadb', 'HOLDFAST_MYSQL')


@test
def postgres_that_is_struck_keeps_its_promise(box):
    keeps_its_promise(box, 'postgres', 'HOLDFAST_POSTGRES')


@test
def run_of_20_seconds_has_each_fault(box):
    if os.environ['HOLDFAST_MYSQL'] != 'yes' or missing('mariadb'):
        raise Skip(missing('mariadb') or 'this build has no engine for mariadb')
    has_each_fault_in_20_seconds(box, 'mariadb')


if __name__ == '__main__':
    main(LIMIT)
