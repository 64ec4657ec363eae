# SPDX-License-Identifier: Apache-2.0
"""torture on a ZooKeeper server that the command starts itself, and strikes: it keeps its promise,
and nothing of it is left."""
import os
import shutil
import signal

from clitest import Skip, equal, is_alive, main, test, wait_until
from torturing import (LIMIT, all_hit_and_it_is_safe, end_of, is_conclusive, is_safe, need_engine,
                       need_tls, report_of, run_on, until_so)

# Who believes to hold what, and the tokens of grants and of accepted writes.
RULES = ('S1', 'S3', 'S9')
NETTY = ('netty-codec.jar', 'netty-resolver.jar')


def sandbox(box):
    if not shutil.which('java') or not os.path.exists('/usr/share/java/zookeeper.jar'):
        raise Skip('there is no ZooKeeper server')
    need_engine(box, 'zk://none?')


def servers_of(pid):
    """Those among the children of the command that have become servers."""
    try:
        with open(f'/proc/{pid}/task/{pid}/children', encoding='utf-8') as file:
            children = [int(word) for word in file.read().split()]
        return [child for child in children if 'sandbox' in command_of(child)]
    except OSError:
        return []


def command_of(pid):
    with open(f'/proc/{pid}/cmdline', encoding='utf-8') as file:
        return file.read()


@test
def threads_that_ask_at_once_are_safe_so_far(box):
    sandbox(box)
    report = until_so(is_conclusive, lambda: report_of(
        box, '--sandbox', 'zookeeper', '--time', '10s', '--faults', 'none'))
    assert is_safe(report), report


@test
def a_server_that_is_struck_keeps_its_promise(box):
    sandbox(box)
    faults = ['server-stop', 'server-kill', 'store-clock']
    all_hit_and_it_is_safe(faults, lambda: report_of(
        box, '--sandbox', 'zookeeper', '--time', '10s', '--lease', '1s', '--faults',
        ','.join(faults)), RULES)


@test
def an_ensemble_that_is_partitioned_keeps_its_promise(box):
    sandbox(box)

    def partitioned():
        report = report_of(box, '--sandbox', 'zookeeper-ensemble', '--time', '12s', '--lease',
                           '1s', '--faults', 'partition')
        if report['plan']['unavailable']:
            raise Skip(report['plan']['unavailable_why'])
        return report
    all_hit_and_it_is_safe(['partition'], partitioned, RULES)


@test
def connections_are_broken_below_tls(box):
    sandbox(box)
    need_tls(box, 'zks')
    missing = [jar for jar in NETTY if not os.path.exists(f'/usr/share/java/{jar}')]
    if missing:
        raise Skip(f'a ZooKeeper server has TLS only with {", ".join(missing)}')
    faults = ['reset', 'hole', 'mute', 'drip']
    all_hit_and_it_is_safe(faults, lambda: run_on(
        box, ['with_zookeeper.py', '--place', 'tls'], '--time', '10s', '--lease', '1s',
        '--faults', ','.join(faults)))


@test
def nothing_of_a_sandbox_is_left(box):
    sandbox(box)
    process = box.start('torture', '--sandbox', 'zookeeper', '--time', '10m')
    servers = wait_until(lambda: servers_of(process.pid), 'the server runs')
    directory = os.path.dirname(os.path.dirname(command_of(servers[0]).split('\0')[-2]))
    process.signal(signal.SIGINT)
    end_of(process)
    for pid in servers:
        wait_until(lambda pid=pid: not is_alive(pid), f'the server {pid} has ended')
    equal(os.path.exists(directory), False, directory)


if __name__ == '__main__':
    main(LIMIT)
