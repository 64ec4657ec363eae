# SPDX-License-Identifier: Apache-2.0
"""Three nodes of a Galera cluster that all take writes: one lock, whatever node a client asks."""
import json
import subprocess

from clitest import COMMAND, contains, equal, main, test

from databases import Database

ROUNDS = 5


def finding_ids(node):
    result = node.holdfast('doctor', '--json')
    said = json.loads(result.out)
    return ({each['fact']: each['value'] for each in said if 'fact' in each},
            [each['id'] for each in said if 'finding' in each])


@test
def clients_of_all_nodes_exclude_each_other(box):
    nodes = Database.nodes(box)
    counter = box.file('counter')
    with open(counter, 'w', encoding='ascii') as file:
        file.write('0\n')
    step = f'n=$(cat {counter}); sleep 0.01; echo $((n + 1)) >{counter}'
    for mode in ('--fair', '--exclusive'):
        loop = ['sh', '-c', f'for i in $(seq {ROUNDS}); do "$0" -e "$1" run {mode} "x{mode}" -- '
                            f"sh -c '{step}' || exit; done"]
        # No node is silent, but machines are slow.
        running = [subprocess.Popen([*loop, COMMAND, node.url('?timeout=60000')],
                                    env=box.environment, stderr=subprocess.PIPE, text=True)
                   for node in nodes for _ in range(2)]
        ends = [(process.communicate()[1], process.returncode) for process in running]
        equal(ends, [('', 0)] * len(running))
    with open(counter, encoding='ascii') as file:
        equal(int(file.read()), 2 * 2 * len(nodes) * ROUNDS)
    facts, findings = finding_ids(nodes[0])
    equal(findings, [])
    contains(facts['cluster'], '3 nodes, this one is Synced')
    contains(facts['wake-up'], 'else the first two of each queue poll')


@test
def node_that_is_alone_grants_nothing_and_the_others_do(box):
    nodes = Database.nodes(box)
    holder = box.start('-e', nodes[1].url(), 'run', 'x', '--', 'sh', '-c', 'echo; read line; true',
                       stdin=subprocess.PIPE)
    holder.line()
    for node in nodes:
        equal(node.holdfast('try', 'x', '--', 'true').code, 75)
    nodes[0].server.stop()
    hosts = ','.join(f'127.0.0.1:{node.server.port}' for node in nodes)
    everywhere = nodes[0].url().replace(f'127.0.0.1:{nodes[0].server.port}', hosts)
    equal(box.run('-e', everywhere, 'run', '-w', '60s', 'y', '--', 'true').code, 0)
    equal(box.run('-e', everywhere, 'try', 'x', '--', 'true').code, 75)
    equal(holder.end().code, 0)
    equal(box.run('-e', everywhere, 'run', '-w', '60s', 'x', '--', 'true').code, 0)


main()
