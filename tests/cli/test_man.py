# SPDX-License-Identifier: Apache-2.0
"""The examples in the manual, in --help and in docs/howto are run, the files of packaging are
checked, and the pages are formatted."""
import contextlib
import http.server
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading

from clitest import COMMAND, PATIENCE, Skip, contains, equal, main, test, wait_until
from servers import start_redis

MAN = os.environ['HOLDFAST_MAN']
ROOT = pathlib.Path(MAN).parent.parent
sys.path.insert(0, str(ROOT / 'tests/examples'))
import test_fencing  # noqa: E402
PAGES = ['holdfast.1.scd', 'libholdfast.3.scd', 'holdfast-url.7.scd']


def blocks(page):
    """The examples as a reader sees them, where there is what shows them: what is lost on the way
    to the screen is lost here."""
    with open(os.path.join(MAN, page), encoding='utf-8') as file:
        source = file.read()
    examples = re.findall(r'^```\n(.*?)^```$', source, re.DOTALL | re.MULTILINE)
    meant = [text.replace('\\\\', '\\') for text in examples]
    try:
        found = re.findall(r'^\.nf\n\.RS 4\n(.*?)^\.fi$', filtered(['scdoc'], source),
                           re.DOTALL | re.MULTILINE)
        shown = [filtered(['groff', '-Tascii', '-P-c'], f'.pl 1000\n.ll 200n\n.nf\n{text}').rstrip()
                 + '\n' for text in found]
    except FileNotFoundError:
        return meant
    equal(shown, meant, f'the examples of {page}')
    return shown


def filtered(words, text):
    return subprocess.run(words, input=text, capture_output=True, text=True, check=True,
                          timeout=PATIENCE).stdout


def furnish(box):
    """What the examples expect to find."""
    box.script('backup.sh', 'echo backed up\n')
    box.script('encode.sh', 'echo encoded "$1"\n')
    box.script('move', 'test "$1 $2" = "a b"\n')
    box.script('scheduler', 'echo scheduling; exec sleep 1000\n')
    with open(box.file('app.conf'), 'w', encoding='utf-8') as file:
        file.write('colour = red\n')
    os.mkdir(box.file('bin'))
    os.symlink(COMMAND, box.file('bin/holdfast'))
    box.environment['PATH'] = box.file('bin') + ':' + box.environment['PATH']


def shell(box, text):
    done = subprocess.run(['sh', '-e', '-c', text], cwd=box.path, env=box.environment,
                          timeout=2 * PATIENCE, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, f'{text}\nexit {done.returncode}\n{done.stdout}{done.stderr}'
    return done


@test
def shell_examples_work(box):
    furnish(box)
    count = 0
    for page in ('holdfast.1.scd', 'holdfast-url.7.scd'):
        for text in blocks(page):
            shell(box, text)
            count += 1
    assert count >= 10, f'only {count} examples were found'
    # A rate limiter is shown until its burst is there again.
    wait_until(lambda: box.expect(0, 'show').out == '', 'nothing left behind by the examples')


@test
def pages_of_howto_do_what_they_say(box):
    """Blocks of sh are run; one with a file's name is that file."""
    server = start_redis(box)
    furnish(box)
    box.script('consume', 'echo "$1" >> consumed.log\n')
    box.script('bin/make', 'exit 0\n')
    pages = sorted((ROOT / 'docs/howto').glob('*.md'))
    assert len(pages) >= 8, pages
    for page in pages:
        text = page.read_text(encoding='utf-8').replace('redis://locks.example', server.url)
        found = re.findall(r'^```(\w+)(?: (\S+))?\n(.*?)^```$', text, re.DOTALL | re.MULTILINE)
        for language, name, body in found:
            if name:
                box.script(name, '# of the page\n' + 'set -e\n' * (language == 'sh') + body)
        lines = ''.join(body for language, name, body in found if language == 'sh' and not name)
        assert lines and 25 <= text.count('\n') <= 60, f'{page}: {text.count(chr(10))} lines'
        if page.name == 'fence-a-bucket.md':
            with bucket(box):
                shell(box, lines)
        else:
            shell(box, lines)
    equal(box.expect(0, '-e', server.url, 'show').out.count('\n'), 2, 'the semaphore alone is left')


@contextlib.contextmanager
def bucket(box):
    """An object in a store that knows If-Match, and the code of docs/fencing.md for it."""
    box.script('fenced.py', '\n' + test_fencing.snippet('python', 'http'))
    server = http.server.HTTPServer(('127.0.0.1', 0), test_fencing.ObjectHandler)
    server.body = b'{"fence": "0", "items": 0}'
    box.environment['STOCK_URL'] = f'http://127.0.0.1:{server.server_port}/stock'
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield
    contains(server.body.decode(), '"items": 20')
    server.shutdown()
    server.server_close()


@test
def units_of_systemd_are_verified(box):
    if not shutil.which('systemd-analyze'):
        raise Skip('there is no systemd-analyze')
    box.script('nightly', 'exit 0\n')
    units = sorted((ROOT / 'packaging/systemd').iterdir())
    equal(len(units), 4)
    for unit in units:
        text = unit.read_text(encoding='utf-8').replace('/usr/bin/holdfast', COMMAND)
        name = box.file(unit.name.replace('@', '@nightly'))
        for text in (text + '[Nonsense]\n', text):
            with open(name, 'w', encoding='utf-8') as file:
                file.write(text.replace('/usr/local/bin/', box.path + '/'))
            done = subprocess.run(['systemd-analyze', 'verify', '--man=no', name], timeout=PATIENCE,
                                  capture_output=True, text=True, check=False)
            complaints = [line for line in done.stderr.splitlines() if box.path in line]
            if '[Nonsense]' in text and not complaints:
                raise Skip(f'systemd-analyze does not work here: {done.stderr}')
        equal(complaints, [])


@test
def line_of_cron_runs_the_job(box):
    furnish(box)
    lines = (ROOT / 'packaging/cron.d/nightly').read_text(encoding='utf-8').splitlines()
    line, = [line for line in lines if re.match(r'[0-9*]', line)]
    fields = line.split(None, 7)
    assert all(re.fullmatch(r'\*|[0-9]+', field) for field in fields[:5]), fields
    equal(fields[5:7], ['root', '/usr/bin/holdfast'])
    box.script('nightly', 'echo backed up\n')
    with open(box.file('url'), 'w', encoding='utf-8') as file:
        file.write('local:\n')
    words = fields[7].replace('/usr/local/bin/', './').replace('/etc/holdfast/', './')
    equal(shell(box, f'holdfast {words.replace("5m", "1ms")}').stdout, 'backed up\n')


@test
def files_for_containers_and_ansible_name_options_that_exist(box):
    try:
        import yaml  # pylint: disable=import-outside-toplevel
    except ImportError:
        raise Skip('there is no PyYAML') from None

    def calls(thing):
        """Lists of words that begin with holdfast."""
        if isinstance(thing, list) and 'holdfast' in thing[:1]:
            yield thing[1:]
        for part in thing.values() if isinstance(thing, dict) else thing \
                if isinstance(thing, list) else ():
            yield from calls(part)

    count = 0
    for name in ('compose.yaml', 'kubernetes.yaml', 'ansible.yml'):
        text = (ROOT / 'packaging' / name).read_text(encoding='utf-8')
        found = [call for document in yaml.safe_load_all(text) for call in calls(document)]
        found += [line.split() for line in re.findall(r'holdfast (--url-file .* -- sh)', text)]
        found += [line.split() for line in re.findall(r'command: (-v .* -- sh) -c', text)]
        for words in found:
            if 'holdfast-engine-redis' not in words:
                box.expect(0, *words[:words.index('--')], '--help')
                count += 1
    equal(count, 5)


@test
def c_examples_compile_and_run(box):
    library, include = os.environ['HOLDFAST_LIBRARY'], os.environ['HOLDFAST_INCLUDE']
    compiler = os.environ.get('CC', 'cc')
    texts = blocks('libholdfast.3.scd')
    assert len(texts) >= 4, texts
    sanitized = subprocess.run(['nm', '-D', library], capture_output=True, text=True, check=False)
    if '__asan_' in sanitized.stdout or '__tsan_' in sanitized.stdout:
        raise Skip('programs outside the build cannot load a library with sanitizers')
    for number, text in enumerate(texts):
        source, program = box.file(f'example{number}.c'), box.file(f'example{number}')
        with open(source, 'w', encoding='utf-8') as file:
            file.write(text)
        subprocess.run([*compiler.split(), '-std=c17', '-Wall', '-Wextra', '-Wpedantic', '-Werror',
                        '-I', include, source, library, '-o', program,
                        '-Wl,-rpath,' + os.path.dirname(library)], check=True, timeout=PATIENCE)
        done = subprocess.run([program], env=box.environment, timeout=PATIENCE, capture_output=True,
                              text=True, check=False)
        assert done.returncode == 0 and done.stdout, (number, done)


@test
def pages_are_formatted(box):
    del box
    try:
        for page in PAGES:
            with open(os.path.join(MAN, page), 'rb') as file:
                done = subprocess.run(['scdoc'], stdin=file, capture_output=True, check=False)
            equal(done.returncode, 0, f'{page}: {done.stderr.decode()}')
    except FileNotFoundError:
        raise Skip('scdoc is not installed') from None


@test
def every_option_and_verb_is_in_the_manual(box):
    with open(os.path.join(MAN, 'holdfast.1.scd'), encoding='utf-8') as file:
        manual = file.read()
    listing = box.expect(0, '--help').out
    verbs = re.findall(r'^  ([a-z]+)  ', listing, re.MULTILINE)
    assert len(verbs) >= 12, verbs
    mentioned = set(re.findall(r'--([a-z-]+)', listing))
    for verb in verbs:
        mentioned.update(re.findall(r'--([a-z-]+)', box.expect(0, verb, '--help').out))
        assert f'*holdfast {verb}*' in manual or f'*{verb}*' in manual or verb in manual, verb
    missing = [option for option in sorted(mentioned - {'help'}) if f'--{option}' not in manual]
    equal(missing, [])


@test
def the_manual_knows_how_many_names_there_may_be(box):
    with open(os.path.join(MAN, 'holdfast.1.scd'), encoding='utf-8') as file:
        limit = int(re.search(r'at most ([0-9]+) names', file.read()).group(1))
    names = [word for number in range(limit) for word in ('-l', f'name {number}')]
    box.expect(0, 'run', *names, '--', 'true')
    contains(box.expect(64, 'run', *names, '-l', 'one more', '--', 'true').err,
             f'more than {limit} names')


@test
def examples_in_the_help_work_as_they_stand(box):
    furnish(box)
    box.script('bin/ffmpeg', 'exit 0\n')
    box.script('bin/make', 'exit 0\n')
    # There is nobody to unlock or to break, and elect, bench and --watch take their time.
    codes = {'unlock': ['121'], 'break': ['1', '75']}
    verbs = ['run', 'try', 'lock', 'unlock', 'show', 'break', 'sem', 'counter', 'latch', 'doctor']
    count = 0
    for verb in [''] + verbs:
        text = box.expect(0, *verb.split(), '--help').out
        lines = [line for line in re.findall(r'^  ((?:holdfast|OWNER|\./).*)$', text, re.MULTILINE)
                 if '--watch' not in line]
        script = ''.join(f'{line}\necho "code $?" >&2\n' for line in lines)
        done = shell(box, 'set +e\nOWNER=none\n' + script)
        told = re.findall(r'^code ([0-9]+)$', done.stderr, re.MULTILINE)
        assert set(told) <= set(codes.get(verb, ['0'])), (script, done)
        equal(len(told), len(lines), script)
        count += len(lines)
    assert count >= 25, count


if __name__ == '__main__':
    main()
