# SPDX-License-Identifier: Apache-2.0
"""torture where several Redis servers make one place: each is struck by what it is there to
withstand, and keeps what a single one promises."""
from clitest import main, test
from torturing import LIMIT, all_hit_and_it_is_safe, need_redis, run_on

FAULTS = ['stop-holder', 'kill-holder', 'reset']
# What every lock of Redis has to do with; a quorum has mutexes only, and is not looked through.
RULES = ('S1', 'S2', 'S3', 'S5', 'S6', 'S7', 'S9', 'L3')
RULES_OF_MUTEXES = ('S1', 'S2', 'S3', 'S9')

# Sets `at`: where with_redis.py has the socket of the first server.
HERE = 'at=${HOLDFAST_TEST_URL#*unix://}; at=${at%%/redis.sock*}'

# A hook's name, how it begins, and how it ends.
HAND_OVER = ('hand-over', r"""
port=${HOLDFAST_TEST_URL##*:}; port=${port%%\?*}
slaves=$(redis-cli -p $port cluster nodes | sed -n 's/.*:\([0-9]*\)@.* slave .*/\1/p')
port=$(echo "$slaves" | shuf -n 1)
redis-cli -p $port cluster failover | grep -q OK || exit
for i in $(seq 400); do
    redis-cli -p $port role | grep -q master && exit
    sleep 0.02
done
exit 1""", 'true')

LONELY = ('lonely', f"""{HERE}
redis-cli -s $at/replica.sock replicaof no one | grep -q OK""", f"""{HERE}
port=$(redis-cli -s $at/redis.sock config get port | tail -n 1)
redis-cli -s $at/replica.sock replicaof 127.0.0.1 $port | grep -q OK""")

# It ends by itself, after three leases: meanwhile the server hears nothing, not even to go on.
HANG = ('hang', f"""{HERE}
redis-cli -s $at/redis.sock client pause 900 all | grep -q OK""", f"""{HERE}
redis-cli -s $at/redis.sock ping | grep -q PONG""")


def is_safe_at(box, place, hook, rules):
    need_redis(box)
    name, begin, end = hook
    all_hit_and_it_is_safe([*FAULTS, name], lambda: run_on(
        box, ['with_redis.py', '--place', place], '--time', '8s', '--lease', '300ms', '--faults',
        ','.join(FAULTS), '--hook', f'{name}={begin}', '--hook', f'{name}:heal={end}'), rules)


@test
def a_cluster_whose_masters_hand_over_is_safe(box):
    is_safe_at(box, 'cluster', HAND_OVER, RULES)


@test
def what_a_replica_has_to_confirm_is_safe_when_it_is_gone(box):
    is_safe_at(box, 'sync', LONELY, RULES)


@test
def a_quorum_of_which_one_hangs_is_safe(box):
    is_safe_at(box, 'quorum', HANG, RULES_OF_MUTEXES)


if __name__ == '__main__':
    main(LIMIT)
