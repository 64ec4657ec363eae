# SPDX-License-Identifier: Apache-2.0
"""doctor and show on etcd servers, with something wrong with them."""
import json
import os

from clitest import Skip, contains, equal, main, test, wait_until

import servers  # noqa: F401, for the paths
import etcd_server
from torturing import need_engine


def start(box, **more):
    why = etcd_server.missing()
    if why:
        raise Skip(why)
    need_engine(box, 'etcd://none?')
    directory = os.path.join(box.path, 'etcd')
    cluster = etcd_server.Cluster(directory, **more)
    box.processes.append(Ending(cluster))
    return cluster


class Ending:
    """What a box stops at its end."""

    def __init__(self, cluster):
        self.cluster = cluster

    def stop(self):
        self.cluster.end()


def see(box, cluster, *options):
    """The facts, and the findings' ids."""
    result = box.run('-e', cluster.url(), *options, 'doctor', '--json')
    said = json.loads(result.out)
    findings = [each for each in said if 'finding' in each]
    equal(result.code, 1 if findings else 0, 'the exit code')
    for each in findings:
        assert each['consequence'] and each['cure'] and each['id'], each
    return ({each['fact']: each['value'] for each in said if 'fact' in each},
            [each['id'] for each in findings])


@test
def its_version_is_a_fact_and_judged(box):
    facts, findings = see(box, start(box))
    contains(facts['version'], 'etcd 3.')
    contains(facts['database'], 'KiB')
    minor, patch = [int(part) for part in facts['version'].split()[1].split('.')[1:3]]
    old = minor < 4 or (minor == 4 and patch < 31) or (minor == 5 and patch < 13)
    equal('old-version' in findings, old, f'a finding on {facts["version"]}')


@test
def a_full_database_is_a_danger(box):
    cluster = start(box)
    _, findings = see(box, cluster)
    equal('alarm' in findings, False, 'an alarm at the beginning')
    member = cluster.members[0]
    member.kill()
    member.arguments += ['--quota-backend-bytes', str(1 << 20)]
    member.again()
    assert member.becomes_ready(), 'the server does not come back'
    text = 'x' * 100000

    def is_full():
        return cluster.control('put', 'much', text, check=False).returncode != 0
    wait_until(is_full, 'its quota is reached')
    _, findings = see(box, cluster)
    equal('alarm' in findings, True, 'an alarm at the end')
    result = box.run('-e', cluster.url(), 'try', 'one', '--', 'true')
    contains(result.err, 'NOSPACE')


@test
def a_user_without_rights_is_told_what_is_missing(box):
    cluster = start(box, users=True)
    result = box.run('-e', cluster.url().replace('/holdfast', '/elsewhere'), 'try', 'one', '--',
                     'true')
    contains(result.err, 'readwrite')
    result = box.run('-e', cluster.url(user='locker:wrong'), 'try', 'one', '--', 'true')
    contains(result.err, 'the user or the password is wrong')


if __name__ == '__main__':
    main()
