#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns postgres.sql and mysql.sql into tables for C: SESSION_STATEMENT(word, number) each.

usage: embed_session.py DIALECT scripts.h FILE.sql

A section "-- word" is one statement, which is prepared by a number behind those of the tables'
scripts. At PostgreSQL there are two of each, for the two forms of a key. A section "-- @word@" is
text that stands for that word in others."""

import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import embed  # noqa: E402

SEEN = {
    "postgres": f", {embed.NOW['postgres']}, pg_backend_pid()",
    "mysql": ", TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)), CONNECTION_ID()",
}
KEYS = {"postgres": [":value", ":value::int4, :limit::int4"], "mysql": [""]}
# Sent as text: the list of processes shows what is waited for, and MySQL's KILL takes no parameter.
PLAIN = {"mysql": {"wait", "cancel", "end"}, "postgres": set()}


def sections_of(path):
    sections = {}
    with open(path, encoding="utf-8") as file:
        for line in map(str.rstrip, file):
            title = re.fullmatch(r"-- (@?[a-z_]+@?)", line)
            if title:
                word = title[1]
                sections[word] = []
            elif not line.startswith("--"):
                sections[word].append(line)
    return {word: "\n".join(lines).removesuffix(";") for word, lines in sections.items()}


def main():
    dialect, header, path = sys.argv[1:]
    known = embed.parameters_of(header)
    sections = sections_of(path)
    parts = {word: text for word, text in sections.items() if word.startswith("@")}
    parts["@seen@"] = SEEN[dialect]
    print(f"static const struct sql_script {dialect}[SESSION_WORD_COUNT][2] = {{")
    for word, text in sections.items():
        for form, key in enumerate(KEYS[dialect] if not word.startswith("@") else []):
            whole = text
            for name, part in parts.items():
                whole = whole.replace(name, part)
            whole, order = embed.placed(whole.replace("@key@", key), dialect, known, path)
            numbers, upper = ", ".join(f"SQL_P_{name.upper()}" for name in order), word.upper()
            literal = "\n".join(json.dumps(line + "\n") for line in whole.split("\n"))
            array = f"(const unsigned char[]){{ {numbers} }}" if order else "NULL"
            print(f"[SESSION_{upper}][{form}] = {{ .name = \"{word}\","
                  f" .number = SQL_SCRIPT_COUNT + {form} * SESSION_WORD_COUNT + SESSION_{upper},"
                  f" .count = 1, .plain = {str(word in PLAIN[dialect]).lower()},"
                  f" .statements = &(const struct sql_statement){{ {literal}, {array},"
                  f" {len(order)} }} }},")
    print("};")


main()
