# SPDX-License-Identifier: Apache-2.0
"""Tab: what the shells offer, by the files that are installed for them."""
import os
import pathlib
import re
import shutil
import socket
import subprocess

from clitest import (COMMAND, PATIENCE, Skip, Terminal, contains, equal, main, test,
                     test_of_a_moment, wait_until)
from servers import need_redis_engine

FILES = pathlib.Path(os.environ['HOLDFAST_COMPLETION'])


def offered(box, *words):
    """The words that the command offers, without their meanings."""
    lines = box.expect(0, 'complete', '--', *words).out.splitlines()
    equal(lines[:1], ['words'])
    return [line.split('\t')[0] for line in lines[1:]]


def by_shell(box, *words):
    """What a shell writes that runs these words, in which `holdfast` is ours."""
    os.makedirs(box.file('bin'), exist_ok=True)
    if not os.path.exists(box.file('bin/holdfast')):
        os.symlink(COMMAND, box.file('bin/holdfast'))
    done = subprocess.run(words, cwd=box.path, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=PATIENCE, check=False,
                          env={**box.environment, 'HOME': box.path,
                               'PATH': box.file('bin') + ':' + box.environment['PATH']})
    equal((done.returncode, done.stderr), (0, ''), done.stdout)
    return done.stdout.splitlines()


# Splits a line as bash does for a completion function, calls ours, and prints what it offers.
BASH = '''
source "$1"
COMP_LINE=$2 COMP_POINT=${#2}
mapfile -t COMP_WORDS < <(sed -E 's/ +/\\n/g; s/([:=]+)/\\n\\1\\n/g' <<<"$2" | sed '/^$/d')
[[ $2 != *[\\ ] ]] || COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_holdfast
printf '%s\\n' "${COMPREPLY[@]}"
'''


def bash(box, line):
    if not shutil.which('bash'):
        raise Skip('there is no bash')
    return by_shell(box, 'bash', '--norc', '-c', BASH, 'bash', str(FILES / 'holdfast'), line)


@test
def bash_verbs_and_options_are_offered(box):
    equal(bash(box, 'holdfast sh'), ['show'])
    equal(bash(box, 'holdfast help la'), ['latch'])
    equal(bash(box, 'holdfast --q'), ['--quiet'])
    equal(bash(box, 'holdfast run --max-'), ['--max-run', '--max-hold'])
    equal(bash(box, 'holdfast show --max-'), [''])
    equal(bash(box, 'holdfast -w 5s latch ready '), ['set', 'down', 'wait', 'get'])


@test
def bash_urls_are_offered_behind_colons(box):
    equal(bash(box, 'holdfast -e zk'), ['zk://', 'zks://'])
    equal(bash(box, 'holdfast -e zk:'), ['//'])
    equal(bash(box, 'holdfast --engine=mem'),
          ['memcached://', 'memcacheds://', 'memcached+unix:///'])


@test
def bash_a_command_is_completed_as_commands_are(box):
    contains(bash(box, 'holdfast run nightly bas'), 'bash')
    contains(bash(box, 'holdfast run -l a -- bas'), 'bash')
    equal(box.expect(0, 'complete', '--', 'run', 'nightly', '--', 'tar', '--f').out, 'command 3\n')
    equal(box.expect(0, 'complete', '--', '--url-file', '').out, 'files\n')


@test
def bash_names_in_use_are_offered(box):
    holders = [box.hold(name) for name in ('orders/42', 'orders/a b', 'nightly')]
    # A machine under load may be slower than the command's patience.
    wait_until(lambda: len(offered(box, 'show', '')) == 3, 'all names')
    for line in ('holdfast show ord', 'holdfast run -l ord', 'holdfast sem ord'):
        wait_until(lambda line=line: bash(box, line) == ['orders/42', 'orders/a\\ b'], line)
    wait_until(lambda: offered(box, 'run', 'n') == ['nightly'], 'the name behind run')
    equal(bash(box, 'holdfast show --watch n'), ['nightly'])
    for holder in holders:
        holder.stop()


@test
def completion_verbs_and_options_are_those_of_the_help(box):
    listing = box.expect(0, '--help').out.split('Verbs')[1].split('Options')[0]
    verbs = [line.split()[0] for line in listing.splitlines()[1:] if line.strip()]
    equal(offered(box, ''), verbs + ['help'])
    for verb in verbs:
        told = box.expect(0, 'complete', '--', verb, '--').out.splitlines()[1:]
        options = [line.split('\t')[0] for line in told]
        described = re.findall(r'^ +(?:-\w, )?(--[a-z-]+)', box.expect(0, verb, '--help').out, re.M)
        assert set(described) <= set(options), (verb, described, options)
        assert sum('\t' in line for line in told) >= len(described), told
    for verb in ('sem', 'doctor', 'try'):
        for option in offered(box, verb, '--'):
            said = box.run(verb, option, '0', '--help').err
            assert 'does not go with' not in said and 'no option' not in said, (verb, said)


@test
def completion_formats_of_messages_are_offered(box):
    equal(offered(box, 'run', '--log', ''), ['json', 'text'])
    equal(offered(box, 'elect', '--log=j'), ['--log=json'])


@test
def completion_wrong_words_are_passed_over_in_silence(box):
    for words in (['--bogus', ''], ['no-such-verb', ''], ['run', '-w', 'x', ''],
                  ['-e', 'carrier-pigeon:', 'show', ''], ['--url-file', 'missing', 'show', '']):
        result = box.expect(0, 'complete', '--', *words)
        assert result.out in ('', 'words\n') and result.err == '', result


@test_of_a_moment
def completion_of_a_silent_store_ends_before_show_does(box):
    """Twice, a second each, where the command waits for the store for five."""
    need_redis_engine()
    with socket.socket() as place:
        place.bind(('127.0.0.1', 0))
        place.listen(16)
        url = f'redis://127.0.0.1:{place.getsockname()[1]}'
        show = box.start('-e', url, 'show')
        for _ in range(2):
            ended = box.expect(0, 'complete', '--', '-e', url, 'show', '')
            equal((ended.out, ended.err), ('words\n', ''))
        assert show.popen.poll() is None, 'show has ended before'


@test
def fish_offers_the_same(box):
    if not shutil.which('fish'):
        raise Skip('there is no fish')
    asked = ('holdfast sh', 'holdfast --engine=zk', 'holdfast run --max-')
    script = '\n'.join([f'source {FILES}/holdfast.fish'] +
                       [f"complete -C '{line}'" for line in asked])
    told = [line.split('\t')[0] for line in by_shell(box, 'fish', '--no-config', '-c', script)]
    equal(told, ['show', '--engine=zk://', '--engine=zks://', '--max-hold', '--max-run'])


@test
def zsh_offers_the_same(box):
    if not shutil.which('zsh'):
        raise Skip('there is no zsh')
    by_shell(box, 'zsh', '-fc', 'true')
    box.environment.update(HOME=box.path, PATH=box.file('bin') + ':' + box.environment['PATH'],
                           TERM='dumb')
    shell = Terminal(box, 'zsh', '-f', '-i')
    shell.wait_for('[%#] ')
    shell.type(f"fpath=({FILES} $fpath); autoload -Uz compinit; compinit -u -d {box.path}/dump; "
               "PS1='re''ady> '\n")
    shell.wait_for('ready> ')
    shell.type('holdfast sh\t')
    shell.wait_for('holdfast show ')
    shell.type('\x15holdfast -e etcds\t')
    shell.wait_for('etcds://')
    shell.close()


if __name__ == '__main__':
    main()
