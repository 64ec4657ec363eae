"""torture on a ZooKeeper server that the command starts itself, and strikes: it keeps its promise,
and nothing of it is left."""
import json
import os
import shutil
import signal
import subprocess

from clitest import SLOW, Skip, equal, is_alive, main, test, wait_until

# A server takes seconds to start, and many of them where others want the processors, too.
LONG = int(150 * SLOW)


def sandbox(box):
    if not shutil.which('java') or not os.path.exists('/usr/share/java/zookeeper.jar'):
        raise Skip('there is no ZooKeeper server')
    if 'knows no scheme' in box.run('show', '-e', 'zk://none?').err:
        raise Skip('this build has no engine for ZooKeeper')


def end_of(process):
    signal.alarm(2 * LONG)
    out, err = process.popen.communicate(timeout=LONG)
    return process.popen.returncode, out.decode(), err.decode()


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
def a_server_that_is_struck_keeps_its_promise(box):
    sandbox(box)
    code, out, err = end_of(box.start('torture', '--json', '--sandbox', 'zookeeper', '--time',
                                      '10s', '--lease', '1s', '--faults',
                                      'server-stop,server-kill,store-clock'))
    assert out, (code, err)
    report = json.loads(out)
    equal(report['promised'], True, report)
    assert sum(rule['checked'] for rule in report['rules']) > 0, report
    for rule in report['rules']:
        assert rule['rule'][0] == 'L' or rule['broken'] == 0, report


@test
def an_ensemble_that_is_partitioned_keeps_its_promise(box):
    sandbox(box)
    code, out, err = end_of(box.start('torture', '--json', '--sandbox', 'zookeeper-ensemble',
                                      '--time', '12s', '--lease', '1s', '--faults', 'partition'))
    assert out, (code, err)
    report = json.loads(out)
    if report['plan']['unavailable']:
        raise Skip(report['plan']['unavailable_why'])
    partition, = report['faults']
    assert partition['tried'] > 0, report
    equal(report['promised'], True, report)
    for rule in ('S1', 'S3', 'S9'):
        looked, = (entry for entry in report['rules'] if entry['rule'] == rule)
        assert looked['checked'] > 0 and looked['broken'] == 0, report


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
    main()
