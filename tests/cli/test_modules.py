# SPDX-License-Identifier: Apache-2.0
"""Engines with a server are modules: found beside the library, told by --version -v, and refused
with a reason if one is missing, broken or another version's."""
import os
import resource
import shutil
import stat
import subprocess

from clitest import Skip, contains, equal, main, test

ENGINES = {'redis': 'HOLDFAST_REDIS', 'mysql': 'HOLDFAST_MYSQL', 'postgres': 'HOLDFAST_POSTGRES'}
FOLDER = os.path.join(os.path.dirname(os.environ['HOLDFAST_LIBRARY']), 'holdfast')


def need_modules():
    if os.environ['HOLDFAST_MODULES_BUILT'] != 'yes':
        raise Skip('this build has all engines in the library')


def any_engine():
    """An engine of this build that is a module."""
    need_modules()
    for name, variable in ENGINES.items():
        if os.environ[variable] == 'yes':
            return name
    raise Skip('this build has no engine that is a module')


def folder_of(box, engine=None, module=None):
    """The environment for a folder of modules that has this one alone, or none."""
    folder = box.file('modules')
    os.mkdir(folder)
    if module:
        shutil.copy(module, f'{folder}/{engine}.so')
    return {'HOLDFAST_MODULES': folder}


def refusal(box, engine, environment):
    """What is said when a lock at the engine is asked for."""
    result = box.expect(64, '-e', f'{engine}://127.0.0.1:1', 'try', 'a', '--', 'true',
                        environment=environment)
    equal(len(result.err.splitlines()), 1, result.err)
    return result.err


@test
def version_verbose_lists_each_engine_and_its_module(box):
    engine = any_engine()
    text = box.expect(0, '--version', '-v').out
    contains(text, 'local: in the library')
    contains(text, f'holdfast/{engine}.so\n')
    equal(box.expect(0, '--version').out.count('\n'), 1)


@test
def module_that_is_not_installed_is_named(box):
    engine = any_engine()
    environment = folder_of(box)
    folder = environment['HOLDFAST_MODULES']
    sentence = f'holdfast-engine-{engine} is not installed: there is no {folder}/{engine}.so'
    contains(refusal(box, engine, environment), sentence)
    text = box.expect(0, '--version', '-v', environment=environment).out
    contains(text, sentence)
    contains(text, '$HOLDFAST_MODULES')


@test
def library_that_was_moved_without_modules_names_the_place_beside_it(box):
    engine = any_engine()
    place = box.file('moved')
    os.mkdir(place)
    shutil.copy(os.environ['HOLDFAST_LIBRARY'], f'{place}/libholdfast.so.0')
    done = subprocess.run([os.environ['HOLDFAST_SECURE_MODULES']], check=True, text=True,
                          env={'LD_LIBRARY_PATH': place}, capture_output=True)
    contains(done.stdout, f'is not installed: there is no {place}/holdfast/{engine}.so')


@test
def local_locks_need_no_module(box):
    need_modules()
    box.expect(0, 'run', 'a', '--', 'true', environment=folder_of(box))


@test
def module_of_another_version_is_refused_with_both_versions(box):
    engine = any_engine()
    version = box.expect(0, '--version').out.split()[1]
    environment = folder_of(box, engine, os.environ['HOLDFAST_OTHER_VERSION'])
    text = refusal(box, engine, environment)
    contains(text, 'holdfast 0.0.9')
    contains(text, f'the library is {version}')


@test
def module_that_cannot_be_loaded_is_told_with_the_reason(box):
    engine = any_engine()
    environment = folder_of(box, engine, __file__)
    text = refusal(box, engine, environment)
    contains(text, f'holdfast-engine-{engine} cannot be loaded')
    contains(text, f'modules/{engine}.so')


@test
def module_that_was_cut_off_is_told_as_such(box):
    engine = any_engine()
    with open(f'{FOLDER}/{engine}.so', 'rb') as file:
        whole = file.read()
    environment = folder_of(box)
    for length in (1000, len(whole) // 3, len(whole) // 2, len(whole) - 1):
        with open(box.file(f'modules/{engine}.so'), 'wb') as file:
            file.write(whole[:length])
        contains(refusal(box, engine, environment), 'ends too early; install it again')


@test
def module_that_is_no_file_is_told_as_such(box):
    engine = any_engine()
    environment = folder_of(box)
    os.mkfifo(box.file(f'modules/{engine}.so'))
    contains(refusal(box, engine, environment), 'is not a file; install it again')


@test
def too_few_descriptors_for_a_module_are_no_wrong_url(box):
    engine = any_engine()
    told = 0
    # One more than the three that it is given is the least that the loader can do with.
    for count in range(4, 20):
        limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))  # noqa: E731
        result = box.start('-e', f'{engine}://127.0.0.1:1', 'try', 'a', '--', 'true',
                           environment={'HOLDFAST_MODULES': FOLDER}, before=limit).end()
        assert result.code in (69, 70), f'{count}: {result}'
        told += f"{engine} cannot be loaded" in result.err and "raise 'ulimit -n'" in result.err
    assert told, 'the loader has never met the limit'


@test
def module_is_found_through_a_link_to_the_library(box):
    engine = any_engine()
    place = box.file('elsewhere')
    os.mkdir(place)
    library = os.path.realpath(os.environ['HOLDFAST_LIBRARY'])
    os.symlink(library, f'{place}/libholdfast.so.0')
    program = [os.environ['HOLDFAST_SECURE_MODULES']]
    done = subprocess.run(program, env={'LD_LIBRARY_PATH': place}, capture_output=True, text=True,
                          check=True)
    contains(done.stdout, f'/holdfast/{engine}.so')


@test
def set_user_id_program_takes_no_folder_from_the_environment(box):
    engine = any_engine()
    if os.getuid() != 0:
        raise Skip('only root makes a program of another user')
    os.chmod(box.path, 0o755)
    program = box.file('secure')
    shutil.copy(os.environ['HOLDFAST_SECURE_MODULES'], program)
    environment = folder_of(box)
    done = subprocess.run([program], env=environment, capture_output=True, text=True, check=True)
    contains(done.stdout, f'holdfast-engine-{engine} is not installed')
    os.chown(program, 65534, 65534)
    os.chmod(program, 0o755 | stat.S_ISUID)
    done = subprocess.run([program], env=environment, capture_output=True, text=True, check=False)
    if 'secure 1' not in done.stdout:
        raise Skip(f'no program of another user can run here: {done.stderr.strip()}')
    equal('not installed' in done.stdout, False, done.stdout)


main()
