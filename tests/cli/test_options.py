# SPDX-License-Identifier: Apache-2.0
"""Options, help, and everything that can be written wrongly."""
import os
import pathlib
import re
import shutil
import subprocess

from clitest import COMMAND, contains, equal, main, test
from servers import need_redis_engine

VERBS = ['run', 'try', 'elect', 'lock', 'renew', 'unlock', 'show', 'break', 'sem', 'counter',
         'latch', 'doctor']


def refuses(box, sentence, *words):
    result = box.expect(64, *words)
    equal(result.out, '', 'stdout')
    contains(result.err, sentence)
    assert result.err.startswith('holdfast: '), result.err
    equal(result.err.count('\n'), 1, 'lines on stderr')


@test
def holdfast_alone_explains_itself_and_fails(box):
    result = box.expect(64)
    contains(result.err, 'holdfast run nightly')
    equal(result.out, '')


@test
def help_goes_to_stdout(box):
    result = box.expect(0, '--help')
    equal(result.err, '')
    for verb in VERBS:
        contains(result.out, f'\n  {verb} ')


@test
def every_verb_has_help_with_an_example(box):
    for verb in VERBS:
        for words in ((verb, '--help'), ('--help', verb), (verb, '-h'), ('help', verb)):
            result = box.expect(0, *words)
            contains(result.out, f'holdfast {verb} ')
            contains(result.out, '\n  ')
            equal(result.err, '')


@test
def help_is_a_word_too(box):
    equal(box.expect(0, 'help').out, box.expect(0, '--help').out)
    refuses(box, "no verb 'rum'", 'help', 'rum')
    equal(box.expect(0, 'run', 'help', 'echo', 'a lock called help').out, 'a lock called help\n')


@test
def version_is_said(box):
    equal(box.expect(0, '--version').out, 'holdfast 0.1.0\n')
    equal(box.expect(0, '-V').out, 'holdfast 0.1.0\n')


@test
def unknown_verbs_and_options_are_refused(box):
    refuses(box, "no verb 'rum'", 'rum', 'x')
    refuses(box, 'no option --wiat', 'run', '--wiat', '3', 'x', '--', 'true')
    refuses(box, 'no option -Z', 'run', '-Z', 'x', '--', 'true')
    refuses(box, '--slots does not go with show', 'show', '-j', '3')
    refuses(box, '--try takes no value', 'run', '--try=1', 'x', 'true')
    refuses(box, '-w needs a value', 'run', '-w')
    refuses(box, '--wait needs a value', 'run', '--wait')


@test
def url_in_place_of_a_name_is_refused(box):
    known = box.expect(64, '-e', 'nonsense:', 'show').err
    schemes = re.findall(r'([a-z+]+):[,\n]', known.split('it knows', 1)[-1])
    assert 'local' in schemes and len(schemes) > 1, known
    for scheme in schemes:
        refuses(box, f'`holdfast doctor -e {scheme}://host`', 'doctor', f'{scheme}://host')
    calls = {'run': ['true'], 'try': ['true'], 'elect': ['true'], 'sem': ['set', '1'],
             'counter': ['get'], 'latch': ['get'], 'unlock': ['KEY'], 'renew': ['KEY']}
    for verb in VERBS + ['held']:
        refuses(box, f'`holdfast {verb} -e redis://u:xx@host/1`', verb, 'redis://u:pw@host/1',
                *calls.get(verb, []))
        refuses(box, f'`holdfast {verb} -e local:a`', verb, 'local:a', *calls.get(verb, []))
    refuses(box, '`holdfast run -e zk://host`\n', 'run', '-l', 'a', '-l', 'zk://host', '--', 'true')


@test
def name_like_a_url_is_taken_after_two_dashes(box):
    box.expect(0, 'run', '--', 'redis:a', 'true')
    box.expect(1, 'held', '--', 'redis:a')
    box.expect(0, 'doctor', '--', 'redis:a')


@test
def name_like_a_url_is_taken_with_an_option(box):
    box.expect(0, 'try', '-l', 'redis:a', '-l', 'b', '--', 'true')


@test
def durations_are_understood(box):
    for text in ('500ms', '5s', '2m', '1h', '7', '1.5s', '0', '2d', '3min'):
        box.expect(0, 'run', '-w', text, 'x', '--', 'true')


@test
def nonsense_durations_are_refused(box):
    for text in ('-5', '-1', 'abc', '', '5x', '1e3', ' 5', '5 s', '0x10', '99999999999999999999',
                 '9999999999h', '.5'):
        refuses(box, 'is no duration: write a number with ms', 'run', '-w', text, 'x', '--', 'true')
        refuses(box, 'is no duration', 'run', f'--wait={text}', 'x', '--', 'true')


@test
def formats_but_json_and_text_are_refused(box):
    refuses(box, "--log 'xml' is no format: write json or text", 'run', '--log=xml', 'x', 'true')
    refuses(box, '--log does not go with show', 'show', '--log', 'text')


@test
def lengths_of_zero_are_refused(box):
    refuses(box, '--ttl 0 makes no sense', 'run', '-t', '0', 'x', '--', 'true')
    refuses(box, '--ttl 0 makes no sense', 'lock', '-t', '0ms', 'x')
    refuses(box, '--ttl 50 ms is too short', 'lock', '-t', '50ms', 'x')
    refuses(box, 'a lease has from 1000 ms to 2591997000 ms',
            '-e', 'memcached://127.0.0.1:1', 'lock', '-t', '30d', 'x')
    refuses(box, '--max-run 0 makes no sense', 'run', '--max-run', '0', 'x', '--', 'true')
    refuses(box, '--max-hold 0 makes no sense', 'run', '--max-hold', '0s', 'x', '--', 'true')
    refuses(box, '--watch 0 makes no sense', 'show', '--watch=0')


@test
def nonsense_numbers_are_refused(box):
    for text in ('0', '-3', 'x', '', '4294967296', '1.5'):
        refuses(box, 'write a whole number from 1', 'run', '-j', text, 'x', '--', 'true')
    refuses(box, 'from 0 to 255', 'run', '-E', '256', 'x', '--', 'true')


@test
def contradictions_are_refused(box):
    refuses(box, 'a lock is of one kind', 'run', '-s', '-F', 'x', '--', 'true')
    refuses(box, 'a lock is of one kind', 'run', '-j', '3', '-W', 'x', '--', 'true')
    refuses(box, '-c STRING and a command', 'run', '-c', 'true', 'x', '--', 'true')
    refuses(box, 'choose one', 'run', '-t', '5s', '--max-hold', '5s', 'x', '--', 'true')
    refuses(box, '--grace must be shorter', 'run', '--grace', '5s', '--max-hold', '5s', 'x', 'true')
    refuses(box, 'exclude each other', 'break', '--owner', 'k', '--token', '3', 'x')
    refuses(box, '--wait does not go with try', 'try', '-w', '5', 'x', '--', 'true')
    for words in (('run', 'x', '--', 'true'), ('lock', 'x'), ('counter', 'x', 'take'),
                  ('latch', 'x', 'wait')):
        refuses(box, '--try and --wait exclude each other', '-n', '-w', '5', *words)
        refuses(box, '--try and --wait exclude each other', '-w', '5', '-n', *words)
    for verb in ('run', 'try'):
        refuses(box, '--skip and --busy-exit exclude', verb, '--skip', '-E', '75', 'x', 'true')
        refuses(box, '--skip and --busy-exit exclude', verb, '-E', '3', '--skip', 'x', 'true')


@test
def a_url_that_lacks_its_slashes_is_told_so(box):
    need_redis_engine()
    for url in ('redis:127.0.0.1:17391', 'redis:/127.0.0.1', 'redis:17391', 'redis:localhost/3'):
        refuses(box, 'the host stands behind "//": redis://host:port/database', 'show', '-e', url)
    refuses(box, 'behind "//": rediss://host', 'show', '-e', 'rediss:127.0.0.1')
    refuses(box, 'a database is a number', 'show', '-e', 'redis://127.0.0.1/x')


def known_schemes(box):
    told = box.expect(64, 'show', '-e', '127.0.0.1:17391').err
    return told.split('it knows ')[1].strip().split(', ')


# What stands behind the hosts.
PATHS = {'zk': '/one', 'zks': '/one', 'redis+sentinel': '/one', 'rediss+sentinel': '/one',
         'etcd': '/one', 'etcds': '/one', 'postgres': '/one', 'postgresql': '/one',
         'mysql': '/one', 'mariadb': '/one', 'redis': '', 'rediss': '', 'redis+cluster': '',
         'rediss+cluster': '', 'memcached': '', 'memcacheds': ''}


def engines_with_hosts(box):
    known = known_schemes(box)
    return {scheme: path for scheme, path in PATHS.items() if scheme + ':' in known}


@test
def hosts_and_options_are_refused_alike_by_every_engine(box):
    for scheme, path in engines_with_hosts(box).items():
        for hosts, why in ((':5', 'a host is missing at position'),
                           ('a,,b', 'a host is missing at position'),
                           ('a:0', 'a port is a number from 1 to 65535'),
                           ('a:65536', 'a port is a number from 1 to 65535'),
                           ('a:x', 'a port is a number from 1 to 65535'),
                           ('a, b', 'no blank or control character is part of a host'),
                           ('a /,b', 'no blank or control character is part of a host')):
            refuses(box, why, 'show', '-e', f'{scheme}://{hosts}{path}')
        for options, why in (('frob=1', 'has no option "frob"; holdfast-url(7) lists them'),
                             ('timeout=500&timeout=600', 'an option is given twice at position'),
                             ('timeout=5', 'timeout is a number of milliseconds from 100 to 3600'),
                             ('timeout=x', 'timeout is a number of milliseconds from 100 to 3600')):
            refuses(box, why, 'show', '-e', f'{scheme}://a{path}?{options}')


# For each option of a database's URL: where it is of use, and what is said elsewhere.
LAYOUTS = ('', 'method_lock', 'common_lock', 'shedlock', 'laravel', 'symfony', 'int_lock')
SQL_OPTIONS = (
    ('timeout=500', lambda at, scheme, layout: True, ''),
    ('prefix=a', lambda at, scheme, layout: True, ''),
    ('durability=full', lambda at, scheme, layout: scheme.startswith('p'), 'durability is for'),
    ('durability=relaxed', lambda at, scheme, layout: scheme.startswith('p'), 'durability is for'),
    ('stale=9', lambda at, scheme, layout: layout == 'method_lock', 'stale is for layout=method'),
    ('stale=0', lambda at, scheme, layout: layout == 'method_lock', 'stale is for layout=method'),
    ('tls=off', lambda at, scheme, layout: True, ''),
    ('tls=verify', lambda at, scheme, layout: 'socket' not in at, 'tls is for hosts'),
    ('tls=insecure', lambda at, scheme, layout: 'socket' not in at, 'tls is for hosts'),
    ('ca=f', lambda at, scheme, layout: 'socket' not in at, 'ca is for hosts'),
    ('cert=f&key=f', lambda at, scheme, layout: 'socket' not in at, 'cert is for hosts'),
    ('ca=f&tls=off', lambda at, scheme, layout: False, 'ca is for'),
    ('ca=f&tls=insecure', lambda at, scheme, layout: False, ' is for '),
    ('cert=f&key=f&tls=off', lambda at, scheme, layout: False, 'cert is for'),
    ('cert=f&key=f&tls=insecure', lambda at, scheme, layout: 'socket' not in at, ' is for '))


@test
def an_option_without_effect_at_a_database_is_refused(box):
    schemes = [scheme for scheme in ('postgres', 'postgresql', 'mysql', 'mariadb')
               if scheme + ':' in known_schemes(box)]
    for scheme in schemes:
        for layout in LAYOUTS:
            for at in ('db.example/app?', 'localhost/app?socket=/s&', '/app?socket=/s&'):
                for option, is_of_use, why in SQL_OPTIONS:
                    url = f'{scheme}://{at}{option}' + (f'&layout={layout}' if layout else '')
                    if is_of_use(at, scheme, layout):
                        box.expect(0, '-e', url, 'schema', 'print')
                    else:
                        refuses(box, why, '-e', url, 'schema', 'print')
        for hosts in ('db.example', 'localhost,localhost:77'):
            refuses(box, 'socket stands in the place of', '-e', f'{scheme}://{hosts}/app?socket=/s',
                    'schema', 'print')
        box.expect(0, '-e', f'{scheme}://a/app?connections=16', 'schema', 'print')
        for option, why in (('connections=17', 'is a number of connections from 1 to 16'),
                            ('connections=2&layout=session', 'connections is for tables')):
            refuses(box, why, '-e', f'{scheme}://a/app?{option}', 'schema', 'print')


@test
def a_url_without_hosts_is_told_how_it_looks(box):
    for scheme in engines_with_hosts(box):
        for rest in ('127.0.0.1:17391', '/127.0.0.1', 'localhost/3'):
            refuses(box, f'{scheme}://host', 'show', '-e', f'{scheme}:{rest}')


@test
def different_paths_behind_the_hosts_of_a_url_are_refused(box):
    for scheme, path in engines_with_hosts(box).items():
        for hosts in ('a/one,b/two', 'a/one,b') if path else ():
            refuses(box, 'the path stands once, behind the last host, or is the same behind each',
                    'show', '-e', f'{scheme}://{hosts}')


@test
def an_unknown_scheme_is_told_all_that_there_are(box):
    known = known_schemes(box)
    assert 'local:' in known, known
    for engine, schemes in (('REDIS', ['redis', 'rediss', 'redis+unix', 'redis+sentinel',
                                       'rediss+sentinel', 'redis+cluster', 'rediss+cluster',
                                       'quorum']),
                            ('MYSQL', ['mysql', 'mariadb']),
                            ('POSTGRES', ['postgres', 'postgresql'])):
        for scheme in schemes:
            equal(scheme + ':' in known, os.environ[f'HOLDFAST_{engine}'] == 'yes', scheme)
    for one, secured in ('zk', 'zks'), ('etcd', 'etcds'), ('memcached', 'memcacheds'):
        equal(one + ':' in known, secured + ':' in known)


@test
def a_mistyped_scheme_is_told_the_nearest_one(box):
    known = known_schemes(box)
    for scheme, meant in (('postgress', 'postgres'), ('postgre', 'postgres'), ('pg', 'postgres'),
                          ('pgsql', 'postgresql'), ('psql', 'postgresql'), ('mysq', 'mysql'),
                          ('MySQL', 'mysql'), ('maria', 'mariadb'), ('redsi', 'redis'),
                          ('redisss', 'rediss'), ('redis+sentinal', 'redis+sentinel'),
                          ('rediss+unix', 'redis+unix'), ('etc', 'etcd'), ('ectd', 'etcd'),
                          ('zookeeper', 'zk'), ('memcache', 'memcached'), ('locale', 'local')):
        if meant + ':' in known:
            refuses(box, f'knows no scheme "{scheme}"; did you mean "{meant}:"?', 'show', '-e',
                    f'{scheme}://u:p@localhost/x')
    for scheme in ('http', 'file', 'x', 'sqlite', 'consul', 'zz', 'mongodb', 'lk'):
        refuses(box, f'knows no scheme "{scheme}"; it knows {known[0]}, ', 'show', '-e',
                f'{scheme}://localhost/x')


@test
def a_mistyped_on_lost_is_refused(box):
    for text in ('termm', 'Kill', 'none', ''):
        refuses(box, 'none of term, kill and ignore', 'run', '--on-lost', text, 'x', 'true')
        refuses(box, 'none of term, kill and ignore', 'elect', '--on-lost', text, 'x', 'true')
    for text in ('term', 'kill', 'ignore', './tell', 'kill -9 $HOLDFAST_PID'):
        box.expect(0, 'run', '--on-lost', text, 'x', 'true')


@test
def missing_words_are_refused(box):
    refuses(box, 'no name', 'run')
    refuses(box, 'no command', 'run', 'x')
    refuses(box, 'no command', 'run', 'x', '--')
    refuses(box, 'takes one name', 'lock')
    refuses(box, 'takes one name', 'lock', 'a', 'b')
    refuses(box, 'are needed', 'renew', 'x')
    refuses(box, 'are needed', 'unlock', 'x')
    refuses(box, 'takes one name', 'break')
    refuses(box, 'are needed', 'sem', 'x')
    refuses(box, 'are needed', 'sem', 'x', 'fly')
    refuses(box, 'a number is needed', 'sem', 'x', 'set')
    refuses(box, 'a word too many', 'sem', 'x', 'get', '3')
    refuses(box, 'are needed', 'counter', 'x', 'down')
    refuses(box, 'whole one', 'counter', 'x', 'set', '--', '-1')
    refuses(box, 'no number here is below zero', 'counter', 'x', 'set', '-1')
    refuses(box, 'key that lock printed', 'unlock', 'x', '')
    refuses(box, 'key that lock printed', 'renew', 'x', 'k' * 500)
    refuses(box, 'are needed', 'latch', 'x', 'set')
    refuses(box, 'whole one', 'latch', 'x', 'down', 'two')
    refuses(box, 'takes one name, or none', 'doctor', 'x', 'y')
    refuses(box, "the lock's name is empty; give it 1 to 1024 bytes", 'doctor', '')
    refuses(box, "the lock's name has 1025 bytes", 'doctor', 'n' * 1025)
    refuses(box, 'one name or pattern', 'show', 'a', 'b')


@test
def options_may_stand_before_and_after_the_verb_and_the_name(box):
    holder = box.hold('x')
    for words in (('-n', 'run', 'x', '--', 'true'), ('run', '-n', 'x', 'true'),
                  ('run', 'x', '-n', '--', 'true'), ('run', 'x', '-n', 'true'),
                  ('-q', 'run', '-w0', 'x', 'true'), ('run', '-qn', 'x', 'true'),
                  ('run', '--wait=0', 'x', 'true'), ('run', '--wait', '0', 'x', 'true')):
        box.expect(75, *words)
    holder.stop()


@test
def the_command_keeps_its_own_options(box):
    equal(box.expect(0, 'run', 'x', 'printf', '%s.', '-n', '-E', '3').out, '-n.-E.3.')
    equal(box.expect(0, 'run', 'x', '--', 'printf', '%s.', '--', '--wait').out, '--.--wait.')
    equal(box.expect(0, 'run', '--', '-odd', 'echo', '-q').out, '-q\n')
    for words in (('--', '-odd', '--'), ('-l', '-odd', '--'), ('--', '-odd')):
        equal(box.expect(0, 'run', *words, 'echo', '--', '-q').out, '-- -q\n', words)
    equal(box.expect(0, 'run', '--', 'x', '--', 'printf', '%s.', '--').out, '--.')
    refuses(box, 'no command', 'run', '--', 'x', '--')


@test
def urls_that_are_wrong_are_refused(box):
    for url in ('nosuch:', 'nosuch://host/', 'local', '', 'local:?colour=red', '://',
                'local:?mode=xyz'):
        result = box.run('-e', url, 'try', 'x', 'true')
        equal(result.code, 64, f'{url!r}: {result}')
        assert result.err.startswith('holdfast: '), result.err


@test
def the_url_may_come_from_the_environment_or_a_file(box):
    box.expect(64, 'show', environment={'HOLDFAST_URL': 'nosuch:'})
    with open(box.file('url'), 'w', encoding='utf-8') as file:
        file.write('local:?ns=filed  \n')
    holder = box.hold('x', '--url-file', 'url')
    box.expect(75, '-N', 'filed', 'try', 'x', 'true')
    box.expect(75, '-e', 'local:?ns=filed', 'try', 'x', 'true')
    box.expect(75, 'try', 'x', 'true', environment={'HOLDFAST_URL': 'local:?ns=filed'})
    box.expect(0, 'try', 'x', 'true')
    holder.stop()
    refuses(box, 'cannot be read', '--url-file', 'missing', 'show')
    for endless in ('/dev/zero', '/dev/null', box.path):
        refuses(box, 'no URL in its first line', '--url-file', endless, 'show')
    with open(box.file('url'), 'w', encoding='utf-8') as file:
        file.write('local:///' + 'x' * 10000)
    refuses(box, 'the limit is 2047', '--url-file', 'url', 'show')


@test
def a_namespace_is_a_world_of_its_own(box):
    holder = box.hold('x', '-N', 'blue')
    box.expect(0, '-N', 'green', 'try', 'x', 'true')
    box.expect(75, '-N', 'blue', 'try', 'x', 'true')
    box.expect(75, '-N', 'blue', '-e', 'local:?ns=green', 'try', 'x', 'true')
    holder.stop()


@test
def a_password_shows_in_no_message(box):
    result = box.run('-e', 'nosuch://user:s3cret@host/', 'show')
    assert 's3cret' not in result.err + result.out, result
    result = box.run('doctor', environment={'HOLDFAST_URL': 'local://u:s3cret@/?ns=x'})
    assert 's3cret' not in result.err + result.out, result
    for slip in ('redis:u:s3cret@h', 'redis:/u:s3cret@h', 'redis//u:s3cret@h', 'u:s3cret@h',
                 'zk:u:s3cret@h', 'quorum:redis:u:s3cret@h', 'rediss://u:s3cret@h?verify=maybe'):
        result = box.expect(64, '-e', slip, 'run', 'x', 'true')
        assert 's3cret' not in result.err + result.out, result
    for words in (('-e', 'local:', 'torture', 'redis://u:s3cret@h'),
                  ('torture', 'redis:u:s3cret@h')):
        result = box.expect(64, *words)
        assert 's3cret' not in result.err + result.out, result


@test
def password_in_the_wrong_place_is_not_shown(box):
    need_redis_engine()
    for url in ('redis://geheim@127.0.0.1:1', 'redis://geheim/x@127.0.0.1:1',
                'redis+unix:u:geheim@/x', 'redis://u:geh/geheim@127.0.0.1:1'):
        told = box.run('-e', url, 'try', 'a', 'true')
        equal(told.code, 64, url)
        assert 'geheim' not in told.err and told.err, told.err


@test
def address_is_shown_in_brackets(box):
    need_redis_engine()
    contains(box.run('-e', 'redis://[::1]:1', 'try', 'a', 'true').err, 'Redis at [::1]:1: ')


@test
def url_file_that_others_may_read_is_told_of_once(box):
    path = box.file('secret')
    for url, mode, warned in (('redis://u:secret@127.0.0.1:1', 0o644, 1),
                              ('redis://u:secret@127.0.0.1:1', 0o640, 1),
                              ('redis://u:secret@127.0.0.1:1', 0o600, 0),
                              ('redis://127.0.0.1:1', 0o644, 0)):
        with open(path, 'w', encoding='utf-8') as file:
            file.write(url + '\n')
        os.chmod(path, mode)
        result = box.run('--url-file', path, 'show')
        equal((result.code in (64, 69), result.err.count('lets other users read it')),
              (True, warned), (url, oct(mode), result))
        equal('secret@' in result.err, False, result.err)


@test
def user_of_a_database_is_shown_and_no_password_is(box):
    for url, shown in (('postgres://app@127.0.0.1:1/x', 'postgres://app@127.0.0.1:1/x'),
                       ('mariadb://app@127.0.0.1:1/x', 'mariadb://app@127.0.0.1:1/x'),
                       ('postgres://app:word@127.0.0.1:1/x', 'postgres://app:***@127.0.0.1:1/x'),
                       ('redis://word@127.0.0.1:1', None)):
        result = box.run('-e', url, 'doctor')
        equal('word@127' in result.out + result.err, False, result)
        if shown and 'knows no scheme' not in result.err:
            contains(result.out, shown)


@test
def verb_whose_program_is_not_installed_is_told_so(box):
    """Its help is the command's own."""
    command, program = box.file('bin/holdfast'), box.file('libexec/holdfast/holdfast-torture')
    url = ('-e', 'redis://u:s3cret@h')
    library = os.path.dirname(os.environ['HOLDFAST_LIBRARY'])
    os.mkdir(box.file('bin'))
    os.makedirs(os.path.dirname(program))
    shutil.copy(COMMAND, command)

    def holdfast(*words):
        return subprocess.run([command, *words], env={**os.environ, 'LD_LIBRARY_PATH': library},
                              capture_output=True, text=True, check=False)
    for code, sentence in ((127, 'is not installed'), (126, 'cannot be run')):
        result = holdfast(*url, 'torture')
        equal(result.returncode, code, 'the exit code')
        contains(result.stderr, sentence)
        contains(holdfast('torture', '--help').stdout, 'holdfast torture [URL] [OPTIONS]')
        contains(holdfast('help', 'torture').stdout, 'holdfast torture [URL] [OPTIONS]')
        pathlib.Path(program).write_text('#!/bin/sh\necho "$@"\n', encoding='utf-8')
    os.chmod(program, 0o755)
    words = [*url, 'torture', '--time', '5s']
    equal(holdfast(*words).stdout.split(), words, 'the words that it hands on')


if __name__ == '__main__':
    main()
