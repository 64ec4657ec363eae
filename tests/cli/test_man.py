# SPDX-License-Identifier: Apache-2.0
"""The examples in the manual and in --help are run, and the pages are formatted."""
import os
import re
import subprocess

from clitest import COMMAND, PATIENCE, Skip, contains, equal, main, test

MAN = os.environ['HOLDFAST_MAN']
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
                          timeout=PATIENCE, stdin=subprocess.DEVNULL, capture_output=True,
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
    equal(box.expect(0, 'show').out, '', 'what the examples left behind')


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
