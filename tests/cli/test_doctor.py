# SPDX-License-Identifier: Apache-2.0
"""doctor, and stores that are not as they should be."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

from clitest import COMMAND, PATIENCE, Skip, contains, equal, main, test, wait_until


def state_file(box):
    found = [name for name in os.listdir(box.file('store')) if name.endswith('.hf')]
    equal(len(found), 1, 'state files')
    return os.path.join(box.file('store'), found[0])


@test
def a_healthy_store_has_no_findings(box):
    result = box.expect(0, 'doctor')
    for part in ('holdfast ', '0.1.0', 'state file', box.file('store'), 'file system',
                 'permissions', 'sessions', '1 open', 'lock + unlock', 'boot', 'Nothing endangers'):
        contains(result.out, part)
    assert 'FINDING' not in result.out, result.out


LOCKS_COME_AND_GO = '''
import fcntl
with open('strange', 'w') as file:
    while True:
        for how in (fcntl.LOCK_EX, fcntl.LOCK_UN):
            for byte in range(200):
                fcntl.lockf(file, how, 1, 2 * byte)
'''


@test
def sessions_are_counted_while_strangers_lock_and_unlock(box):
    with subprocess.Popen([sys.executable, '-c', LOCKS_COME_AND_GO], cwd=box.path) as stranger:
        try:
            for _ in range(50):
                contains(box.expect(0, 'doctor').out, '1 open')
        finally:
            stranger.kill()


@test
def doctor_speaks_json(box):
    holder = box.hold('x')
    facts = json.loads(box.expect(0, 'doctor', '--json').out)
    by_key = {each['fact']: each['value'] for each in facts}
    equal(by_key['in use'], '1 held, 0 waiting')
    contains(by_key['sessions'], '2 open')
    holder.stop()


@test
def a_mode_that_came_too_late_is_a_finding(box):
    box.expect(0, 'run', 'x', 'true')
    told = box.expect(1, '-e', 'local:?ns=default&mode=0660', 'doctor').out
    for part in ('mode=0660', 'mode is 0600', 'chmod 0660 ' + state_file(box)):
        contains(told, part)
    os.chmod(state_file(box), 0o660)
    box.expect(0, '-e', 'local:?mode=0660', 'doctor')


@test
def doctor_fix_of_this_machine_is_for_the_shell(box):
    place = box.environment['HOLDFAST_DIR'] = box.file("it's a place, with quotes")
    os.mkdir(place)
    box.expect(0, 'run', 'x', 'true')
    url = 'local:?mode=0660'
    told = box.expect(1, '-e', url, 'doctor', '--fix').out
    contains(told, '# mode-differs: the URL says mode=0660')
    subprocess.run(['sh', '-e', '-c', told], check=True, timeout=PATIENCE)
    box.expect(0, '-e', url, 'doctor')


@test
def doctor_fix_names_the_process_that_is_stopped(box):
    holder = box.hold('x')
    holder.signal(signal.SIGSTOP)
    told = box.expect(1, 'doctor', '--fix').out
    contains(told, f'# holder-stopped: pid {holder.pid} ')
    contains(told, f'# in a shell: kill -CONT {holder.pid}\n')
    holder.signal(signal.SIGCONT)


@test
def doctor_json_has_the_keys_that_its_page_lists(box):
    page = (pathlib.Path(os.environ['HOLDFAST_MAN']).parent / 'doctor.md').read_text('utf-8')
    rows = re.findall(r'^\| (?:a fact|a finding|a finding that .*) \| (.*) \|$', page, re.MULTILINE)
    documented = [re.findall(r'`(\w+)`', row) for row in rows]
    equal(len(documented), 3)
    types = {key: kind
             for keys, kind in re.findall(r'^\| (`.*?`) \| (.*?) \|', page, re.MULTILINE)
             for key in re.findall(r'`(\w+)`', keys)}
    equal(set(types), {key for keys in documented for key in keys} | {'fix'})
    box.expect(0, 'run', 'x', 'true')
    box.environment['HOLDFAST_URL'] = 'redis://user:secret@nowhere'
    words = ('-e', 'local:?mode=0660', 'doctor', '--json', '--ignore', 'mode-differs')
    for more in ([], ['fix']):
        told = json.loads(box.expect(1, *words, *(f'--{word}' for word in more)).out)
        kinds = {next(iter(each)): list(each) for each in told}
        equal(kinds, {keys[0]: keys + more * (keys[0] != 'fact') for keys in documented})
        for key, value in (pair for each in told for pair in each.items()):
            lines = value if types[key] == 'array of strings' else [value]
            assert isinstance(lines, list) and all(isinstance(line, str) for line in lines), value


@test
def doctor_leaves_nothing_behind(box):
    box.expect(0, 'doctor')
    equal(box.picture(), [])


@test
def doctor_does_not_report_its_own_measurements(box):
    equal(box.expect(0, '-v', 'doctor').err, '')
    contains(box.expect(0, '-v', 'run', 'x', 'true').err, "holdfast: 'x': ")


@test
def doctor_another_store_of_this_user_is_named(box):
    os.mkdir(box.file('runtime'))
    box.environment['XDG_RUNTIME_DIR'] = box.file('runtime')
    place = box.file('runtime/holdfast')
    box.expect(0, '-e', f'local://{place}', 'run', 'nightly', 'true')
    contains(box.expect(0, 'doctor').out, f'{place}, 1 namespace, 0 clients')
    holder = box.hold('nightly', '-e', f'local://{place}')
    result = box.expect(1, 'doctor')
    for part in (f'1 client of this machine uses another store, {place}', 'both can run at once',
                 'HOLDFAST_DIR'):
        contains(result.out, part)
    box.expect(0, 'doctor', '--ignore', 'other-store')
    told = box.expect(0, '-e', f'local://{place}', 'doctor', '--ignore', 'other-store').out
    assert f'other store    {place}' not in told, told
    holder.stop()


@test
def doctor_root_by_sudo_is_told_of_the_login_users_store(box):
    if os.getuid() != 0:
        raise Skip('this needs root, to mount a /tmp of its own')
    os.mkdir(box.file('tmp'))
    command = box.command_for_all_users()
    script = (f'mount --bind {box.file("tmp")} /tmp && chmod 1777 /tmp && '
              f'{command} -e local:///tmp/holdfast-2010 run x true && {command} doctor')
    told = subprocess.run(['unshare', '-m', 'sh', '-c', script], capture_output=True, text=True,
                          env={**box.environment, 'SUDO_UID': '2010'}, timeout=PATIENCE,
                          check=False)
    if 'unshare' in told.stderr or 'mount' in told.stderr:
        raise Skip('no mount namespaces here: ' + told.stderr)
    contains(told.stdout, 'other store    /tmp/holdfast-2010, 1 namespace, 0 clients')


@test
def doctor_a_private_tmp_is_a_finding(box):
    if os.getuid() != 0:
        raise Skip('this needs root, to mount a /tmp of its own')
    private = box.file('systemd-private-0123-cron.service/tmp')
    os.makedirs(private)
    command = box.command_for_all_users()
    script = (f'mount --bind {private} /tmp && export HOLDFAST_DIR=/tmp/locks && '
              f'{command} run x true && {command} doctor')
    told = subprocess.run(['unshare', '-m', 'sh', '-c', script], env=box.environment,
                          capture_output=True, text=True, timeout=PATIENCE, check=False)
    if 'unshare' in told.stderr or 'mount' in told.stderr:
        raise Skip('no mount namespaces here: ' + told.stderr)
    equal(told.returncode, 1, told.stderr)
    contains(told.stdout, 'PrivateTmp=')


@test
def loose_permissions_are_found(box):
    box.expect(0, 'run', 'x', 'true')
    os.chmod(state_file(box), 0o666)
    result = box.run('doctor')
    if result.code == 77:
        return
    equal(result.code, 1, repr(result))
    for part in ('any user may write', 'consequence', 'cure', 'chmod'):
        contains(result.out, part)


@test
def doctor_an_ignored_finding_is_no_finding(box):
    box.expect(0, 'run', 'x', 'true')
    url = 'local:?mode=0660'
    told = box.expect(1, '-e', url, 'doctor').out
    contains(told, 'id           mode-differs')
    told = box.expect(0, '-e', url, 'doctor', '--ignore', 'mode-differs').out
    contains(told, '1 finding ignored.')
    assert 'FINDING' not in told and 'Nothing endangers' not in told, told
    said = json.loads(box.expect(0, '-e', url, 'doctor', '--json', '--ignore', 'mode-differs').out)
    equal([each['id'] for each in said if 'ignored' in each], ['mode-differs'])
    equal([each for each in said if 'finding' in each], [])
    box.expect(1, '-e', url, 'doctor', '--ignore', 'aof-off', '--ignore', 'other-store')
    box.expect(0, '-e', url, 'doctor', '--ignore', 'aof-off', '--ignore', 'mode-differs')


@test
def a_stopped_holder_is_found(box):
    holder = box.hold('x')
    holder.signal(signal.SIGSTOP)
    result = box.expect(1, 'doctor')
    contains(result.out, f'pid {holder.pid} holds')
    told = json.loads(box.expect(1, 'doctor', '--json').out)
    findings = [each for each in told if 'finding' in each]
    equal(len(findings), 1)
    assert findings[0]['consequence'] and findings[0]['cure'], findings


@test
def a_name_is_looked_at_alone(box):
    holders = [box.hold(name) for name in ('x', 'y')]
    holders[0].signal(signal.SIGSTOP)
    contains(box.expect(1, 'doctor', 'x').out, f'pid {holders[0].pid} holds')
    told = json.loads(box.expect(0, 'doctor', '--json', 'y').out)
    equal([each['value'] for each in told if each['fact'] == 'in use'],
          ['1 held, 0 waiting, of this name'])


@test
def a_password_in_the_environment_is_found_but_not_shown(box):
    result = box.run('-e', 'local:', 'doctor', environment={'HOLDFAST_URL': 'redis://u:s3cret@h/'})
    equal(result.code, 1)
    contains(result.out, '--url-file')
    assert 's3cret' not in result.out + result.err


@test
def findings_that_nobody_can_read_are_an_error(box):
    with open('/dev/full', 'wb') as full:
        for words in ((), ('--json',)):
            done = subprocess.run([COMMAND, '-e', 'local:', 'doctor', *words], stdout=full,
                                  stderr=subprocess.PIPE, check=False, timeout=PATIENCE,
                                  env={**box.environment, 'HOLDFAST_URL': 'redis://u:pw@h'})
            equal(done.returncode, 70, done)


def as_nobody():
    os.setgid(65534)
    os.setuid(65534)


@test
def doctor_a_directory_without_room_for_sockets_is_a_finding(box):
    place, how = box.file('store'), {}
    url = f'local://{place}?mode=0666'
    box.expect(0, '-e', url, 'run', 'x', 'true')
    if os.getuid() == 0:
        os.chmod(state_file(box), 0o666)
        os.chmod(box.path, 0o755)
        os.chmod(place, 0o755)
        how = {'before': as_nobody, 'command': box.command_for_all_users()}
    else:
        os.chmod(place, 0o500)
    result = box.start('-e', url, 'doctor', **how).end()
    told = box.start('-e', url, 'doctor', '--fix', **how).end().out
    os.chmod(place, 0o700)
    contains(told, '\n# by hand: let its user write to the directory (chmod g+w)\n')
    for part in (f"cannot make its socket in '{place}'", 'up to 50 ms late', 'chmod g+w'):
        contains(result.out, part)


@test
def a_directory_that_may_not_be_written_is_denied(box):
    if os.getuid() == 0:
        command = box.command_for_all_users()
        os.chmod(box.file('store'), 0o755)
        process = box.start('run', 'x', '--', 'echo', 'ran', before=as_nobody, command=command)
        result = process.end()
    else:
        os.chmod(box.file('store'), 0o500)
        result = box.run('run', 'x', '--', 'echo', 'ran')
    equal((result.code, result.out), (77, ''), result.err)
    contains(result.err, 'store')
    equal(result.err.count('\n'), 1)


@test
def a_state_file_of_something_else_is_69(box):
    box.expect(0, 'run', 'x', 'true')
    path = state_file(box)
    size = os.path.getsize(path)
    with open(path, 'r+b') as file:
        file.write(b'this is no state file of holdfast')
    result = box.expect(69, 'run', 'x', '--', 'echo', 'ran')
    equal(result.out, '')
    contains(result.err, os.path.basename(path))
    box.expect(69, 'doctor')
    equal(os.path.getsize(path), size, 'it is left alone')


@test
def a_truncated_state_file_is_69_or_mended(box):
    box.expect(0, 'run', 'x', 'true')
    os.truncate(state_file(box), 100)
    result = box.run('run', 'x', '--', 'echo', 'ran')
    equal((result.code, result.out), (69, ''), result.err)


@test
def a_state_file_of_another_version_is_69(box):
    box.expect(0, 'run', 'x', 'true')
    path = state_file(box)
    with open(path, 'r+b') as file:
        head = file.read(64)
    changed = False
    for offset in range(4, 24, 4):
        with open(path, 'r+b') as file:
            file.seek(offset)
            file.write(bytes(byte ^ 0x55 for byte in head[offset:offset + 4]))
        result = box.run('run', 'x', '--', 'true')
        changed = changed or result.code == 69
        assert result.code in (0, 69), result
        with open(path, 'r+b') as file:
            file.seek(offset)
            file.write(head[offset:offset + 4])
    assert changed, 'no word of the header is looked at'


@test
def a_full_file_system_is_69(box):
    import subprocess
    os.mkdir(box.file('full'))
    mounted = subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', box.file('full')],
                             capture_output=True, check=False)
    if mounted.returncode != 0:
        raise Skip('mounting a small tmpfs is not permitted here')
    try:
        result = box.run('run', 'x', '--', 'echo', 'ran',
                         environment={'HOLDFAST_DIR': box.file('full')})
    finally:
        subprocess.run(['umount', box.file('full')], check=True)
    equal((result.code, result.out), (69, ''), result.err)
    contains(result.err, 'full')


if __name__ == '__main__':
    main()
