#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns .sql files into tables for C: SQL_SCRIPT(name, number, count, statements) for one dialect.

A file is one script: statements that end with a semicolon at the end of a line, comments on lines
of their own. A parameter is written as :name, and becomes $1, $2, ... (PostgreSQL, the same number
for the same parameter) or a question mark for each place (MySQL). Its value is number SQL_P_NAME of
the request's; `parameters.h` has the list. A line "-- include FILE" stands for that file's text."""

import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "doctor"))
import rights  # noqa: E402
import table_check  # noqa: E402

PARAMETER = re.compile(r"(?<!:):([a-z_]+)")
ANSWER = "-- answer"
INCLUDE = re.compile(r"-- include (\S+)")


def lines_of(path):
    with open(path, encoding="utf-8") as file:
        for line in map(str.rstrip, file):
            include = INCLUDE.fullmatch(line.strip())
            if include:
                yield from lines_of(os.path.join(os.path.dirname(path), include[1]))
            elif line.strip() == ANSWER:
                yield ANSWER
            elif line.strip() and not line.strip().startswith("--"):
                yield line.strip()


def statements_of(path, put_in=str):
    """`put_in` is done to the text before it is taken apart."""
    text = put_in("\n".join(lines_of(path)))
    parts = [part.strip() for part in re.split(r";$", text, flags=re.MULTILINE)]
    if parts[-1]:
        sys.exit(f"{path}: the last statement has no semicolon at the end of its line")
    return parts[:-1]


NOW = {
    "postgres": "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
    "mysql": "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))",
}


def placed(statement, dialect, known, path):
    """The text with placeholders, and the parameters in their order."""
    order = []

    def place(match):
        name = match[1]
        if name not in known:
            sys.exit(f"{path}: there is no parameter :{name}")
        if dialect == "mysql":
            order.append(name)
            return "?"
        if name not in order:
            order.append(name)
        return f"${order.index(name) + 1}"

    return PARAMETER.sub(place, statement.replace("@now@", NOW[dialect])), order


def parameters_of(header):
    with open(header, encoding="utf-8") as file:
        return set(map(str.lower, re.findall(r"\bSQL_P_([A-Z_]+)\b", file.read())))


def print_scripts(table, scripts, dialect, known):
    """`scripts`: (name, statements) each; `table` is what the array of them is called."""
    lists = []
    for number, (name, statements) in enumerate(scripts):
        rows = []
        answer = len(statements) - 1
        for index, statement in enumerate(statements):
            if statement.startswith(ANSWER):
                statement = statement[len(ANSWER):].strip()
                answer = index
            text, order = placed(statement, dialect, known, f"{table}: {name}")
            numbers = "NULL"
            if order:
                numbers = f"numbers_of_{table}_{number}_{index}"
                words = ", ".join(f"SQL_P_{word.upper()}" for word in order)
                print(f"static const unsigned char {numbers}[] = {{ {words} }};")
            literal = "\n      ".join(json.dumps(line + "\n") for line in text.split("\n"))
            rows.append(f"    {{ {literal},\n      {numbers}, {len(order)} }},\n")
        array = f"statements_of_{table}_{number}"
        print(f"static const struct sql_statement {array}[] = {{\n{''.join(rows)}}};")
        lists.append(f"    [SQL_{name.upper()}] = {{ \"{name}\", SQL_{name.upper()}, {len(rows)}, "
                     f"{answer}, {array} }},")
    print(f"static const struct sql_script {table}[] = {{")
    print("\n".join(lists))
    print("};")


def scripts_about_tables(scripts, dialect, foreign=False):
    """Those that are made of others. `foreign`: the tables are another program's."""
    return [("schema_check", [table_check.statement_of(scripts["schema"], dialect, foreign)]),
            ("doctor_tables", [rights.statement_of(scripts, dialect, foreign)]),
            ("grants", rights.grants_of(scripts, dialect, foreign))]


def main():
    dialect, header, paths = sys.argv[1], sys.argv[2], sys.argv[3:]
    scripts = [(os.path.splitext(os.path.basename(path))[0], statements_of(path))
               for path in paths]
    scripts += scripts_about_tables(dict(scripts), dialect)
    print_scripts(f"scripts_of_{dialect}", scripts, dialect, parameters_of(header))


if __name__ == "__main__":
    main()
