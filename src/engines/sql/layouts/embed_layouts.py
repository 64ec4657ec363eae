#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the scripts of every layout in one dialect: the .sql files of the dialect's folder, with
the words of the .ini file put in for {word}. `{me_key}` is `me` with :key in place of :owner.

usage: embed_layouts.py DIALECT SCRIPTS.H LAYOUTS.INI FILE.SQL..."""

import configparser
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import embed  # noqa: E402


class Words(dict):
    """Words may consist of words."""

    def __missing__(self, word):
        if word == "me_key":
            return self["me"].replace(":owner", ":key")
        raise KeyError(f"the layout {self['table']} says no {word}")

    def __getitem__(self, word):
        return super().__getitem__(word).format_map(self) if word in self else \
            self.__missing__(word)


def main():
    dialect, header, layouts, paths = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
    known = embed.parameters_of(header)
    config = configparser.ConfigParser(interpolation=None, delimiters=("=",))
    config.read(layouts, encoding="utf-8")
    for layout in config.sections():
        words = Words(config[layout])
        scripts = [(os.path.splitext(os.path.basename(path))[0],
                    embed.statements_of(path, lambda text, w=words: text.format_map(w)))
                   for path in paths]
        scripts += embed.scripts_about_tables(dict(scripts), dialect, foreign=True)
        embed.print_scripts(f"{layout}_of_{dialect}", scripts, dialect, known)
    print(f"static const struct sql_layout layouts_of_{dialect}[] = {{")
    for layout in config.sections():
        array = f"{layout}_of_{dialect}"
        print(f'    {{ "{layout}", {array}, sizeof {array} / sizeof {array}[0] }},')
    print("};")


main()
