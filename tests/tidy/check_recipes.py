#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The recipes of packages say what the build says: versions, options, libraries, files.

usage: check_recipes.py ROOT BUILD [--syntax]

With --syntax: what other programs say of the recipes.
"""

import fnmatch
import json
import pathlib
import re
import shutil
import subprocess
import sys

import sources
import tap

ROOT, BUILD = map(pathlib.Path, sys.argv[1:3])
# Each library that the build looks for, as Alpine, Nix and Homebrew call what brings it.
LIBRARIES = {
    "hiredis": ("hiredis-dev", "hiredis", "hiredis"),
    "libmariadb": ("mariadb-connector-c-dev", "libmysqlclient", "mariadb-connector-c"),
    "libmicrohttpd": ("libmicrohttpd-dev", "libmicrohttpd", "libmicrohttpd"),
    "libnghttp2": ("nghttp2-dev", "nghttp2", "libnghttp2"),
    "libpq": ("libpq-dev", "libpq", "libpq"),
    "libprotobuf-c": ("protobuf-c-dev", "protobufc", "protobuf-c"),
    "libuv": ("libuv-dev", "libuv", "libuv"),
    "ncursesw": ("ncurses-dev", "ncurses", "ncurses"),
    "openssl": ("openssl-dev", "openssl", "openssl@3"),
}
# For the benchmark alone: each recipe switches it off.
SWITCHED_OFF = {"sqlite3": "-Dsqlite=disabled", "threads": ""}
OF_MESON = re.compile(r"auto_features|b_\w+|buildtype|default_library|libexecdir|prefix")


def text_of(path):
    return (ROOT / path).read_text(encoding="utf-8")


ALPINE, NIX, BREW, RULES = map(text_of, ("packaging/APKBUILD", "packaging/default.nix",
                                         "packaging/holdfast.rb", "debian/rules"))


def one(pattern, text):
    return re.search(pattern, text, re.MULTILINE | re.DOTALL)[1]


def versions_are_that_of_the_build():
    version = one(r"^  version: '(.*?)'", text_of("meson.build"))
    said = {"APKBUILD": one(r"^pkgver=(\S+)", ALPINE),
            "default.nix": one(r'version = "(.*?)"', NIX),
            "debian/changelog": one(r"\A\S+ \((.*?)\)", text_of("debian/changelog"))}
    return [f"{recipe}: {other} instead of {version}" for recipe, other in said.items()
            if other != version]


def libraries_of_the_build_are_in_each_recipe():
    wanted = {name for path in ["meson.build", *sources.files(ROOT, ("meson.build",))]
              for name in re.findall(r"\bdependency\(\s*'([^']+)'", text_of(path))}
    recipes = {"APKBUILD": one(r'^makedepends="(.*?)"', ALPINE).split(),
               "default.nix": one(r"\bbuildInputs = with pkgs; \[(.*?)\]", NIX).split(),
               "holdfast.rb": re.findall(r'^  depends_on "(.*?)"$', BREW, re.MULTILINE)}
    wrong = [f"{name} is not in LIBRARIES" for name in wanted - set(LIBRARIES) - set(SWITCHED_OFF)]
    for (recipe, packages), text, number in zip(recipes.items(), (ALPINE, NIX, BREW), range(3)):
        wrong += [f"{recipe}: no {LIBRARIES[name][number]} for {name}"
                  for name in sorted(wanted & set(LIBRARIES))
                  if LIBRARIES[name][number] not in packages]
        wrong += [f"{recipe}: no {option}"
                  for option in SWITCHED_OFF.values() if option not in text]
    return wrong


def options_of_the_recipes_exist():
    options = set(re.findall(r"^option\('(\w+)'", text_of("meson_options.txt"), re.MULTILINE))
    return [f"{recipe}: -D{option} is no option of the build"
            for recipe, text in (("APKBUILD", ALPINE), ("default.nix", NIX), ("holdfast.rb", BREW),
                                 ("debian/rules", RULES))
            for option in re.findall(r"-D(\w+)=", text)
            if option not in options and not OF_MESON.fullmatch(option)]


def installed_files():
    """Below the prefix, with lib in place of the folder of one architecture."""
    def told(what):
        done = subprocess.run(["meson", "introspect", what, BUILD], check=True, text=True,
                              capture_output=True, timeout=120)
        return json.loads(done.stdout)
    options = {option["name"]: option["value"] for option in told("--buildoptions")}
    prefix, lib = options["prefix"], options["libdir"]
    paths = {str(pathlib.PurePath(path).relative_to(prefix))
             for path in told("--installed").values()}
    parts = ["holdfast/" + engine + ".so" for engine in engines()]
    parts += ["holdfast/holdfast-exporter", "holdfast/holdfast-top", "man1/holdfast.1"]
    missing = [part for part in parts if not any(path.endswith(part) for path in paths)]
    if missing:
        raise tap.Skip("not built here: " + ", ".join(missing))
    return {"usr/" + re.sub(f"^{re.escape(lib)}/", "lib/", path) for path in paths}


def engines():
    return one(r"^for _engine in (.*?); do", ALPINE).split()


def takes(pattern, path):
    return any(fnmatch.fnmatch(str(part), pattern)
               for part in (path, *pathlib.PurePath(path).parents))


def files_that_alpine_splits_off_are_installed():
    paths = installed_files()
    patterns = [pattern.replace("${subpkgname##*-}", engine) for engine in engines()
                for pattern in re.findall(r"""\bamove ['"]?(.*?)['"]?$""", ALPINE, re.MULTILINE)]
    modules = {path for path in paths if path.startswith("usr/lib/holdfast/")}
    return ([f"{pattern}: not installed" for pattern in sorted(set(patterns))
             if not any(takes(pattern, path) for path in paths)]
            + [f"{path}: in no package of its own" for path in sorted(modules)
               if not any(takes(pattern, path) for pattern in patterns)])


def files_of_debian_are_those_installed():
    paths = installed_files()
    patterns = {line.split()[0].replace("usr/lib/*/", "usr/lib/"): file.name
                for file in ROOT.glob("debian/*.install")
                for line in file.read_text("utf-8").splitlines()}
    # The Python package has a build of its own.
    del patterns["usr/lib/python3"]
    return ([f"{file}: {pattern} is not installed" for pattern, file in patterns.items()
             if not any(takes(pattern, path) for path in paths)]
            + [f"{path}: in no package" for path in sorted(paths)
               if not any(takes(pattern, path) for pattern in patterns)])


def judged_by(program, *arguments):
    """A check by another program: what it says of a recipe."""
    def check():
        if not shutil.which(program):
            raise tap.Skip(f"{program} is not installed")
        done = subprocess.run([program, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT, check=False, timeout=120)
        return done.stdout.splitlines() if done.returncode else []
    return check


def scripts(shell):
    """The scripts of this shell, which is named in bytes."""
    folders = ("tools", "debian/tests", "torture", ".ci")
    paths = [path for folder in folders for path in sorted((ROOT / folder).glob("*"))]
    return [str(path.relative_to(ROOT)) for path in paths
            if path.is_file() and path.read_bytes().startswith(b"#!/bin/" + shell + b"\n")]


if sys.argv[3:] == ["--syntax"]:
    # abuild reads and sets the variables of its recipe.
    tap.run([("alpine_recipe_is_read_by_a_shell", judged_by("sh", "-n", "packaging/APKBUILD")),
             ("alpine_recipe_is_clean", judged_by("shellcheck", "--shell=dash",
                                                  "--exclude=SC2034,SC2154", "packaging/APKBUILD")),
             ("scripts_have_no_errors", judged_by("shellcheck", "--severity=error",
                                                  *scripts(b"sh"), *scripts(b"bash"))),
             ("homebrew_recipe_is_read_by_ruby", judged_by("ruby", "-c", "packaging/holdfast.rb")),
             ("nix_recipe_is_read_by_nix", judged_by("nix-instantiate", "--parse",
                                                     "packaging/default.nix"))])
tap.run([(check.__name__, check)
         for check in (versions_are_that_of_the_build, libraries_of_the_build_are_in_each_recipe,
                       options_of_the_recipes_exist, files_that_alpine_splits_off_are_installed,
                       files_of_debian_are_those_installed)])
