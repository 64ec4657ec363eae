# SPDX-License-Identifier: Apache-2.0
"""Makes the script that compares tables with the CREATE TABLE statements that holdfast has.

Its rows are pairs, as doctor reads them: 'table_differs', and a part of a sentence. A column may
have any type of its kind (a number, text, bytes, a time): hand-made tables differ in that. But UTC
in a column that has a zone would be another moment for each session's zone."""

import re

CREATE = re.compile(r"CREATE TABLE IF NOT EXISTS (\w+) \((.*)\n\s*\)", re.DOTALL)
AUTO_NUMBER = re.compile(r"\bAUTO_INCREMENT\b|\b(big)?serial\b", re.IGNORECASE)
KINDS = (("a number", r"(big|small)?int\b|(big)?serial\b"), ("text", r"(var)?char\b"),
         ("bytes", r"varbinary\b|bytea\b"),
         ("a time without a zone", r"timestamp without\b"), ("a time", r"timestamp\b|datetime\b"))


class Table:
    """`foreign`: of another program, which may number its rows or not."""

    def __init__(self, statement, foreign):
        self.name, body = CREATE.match(statement).groups()
        self.columns, self.keys, self.known = [], [], []
        for line in re.split(r",\n", body.strip()):
            first, rest = line.strip().split(None, 1)
            key = re.search(r"\(([^)]*)\)$", line)
            if first in ("PRIMARY", "UNIQUE"):
                self.keys.append(",".join(sorted(map(self.plain, key[1].split(",")))))
                continue
            name, unneeded = self.plain(first), foreign and AUTO_NUMBER.search(rest)
            if unneeded:
                continue
            self.known.append(name)
            self.columns.append((name, next(kind for kind, pattern in KINDS
                                            if re.match(pattern, rest, re.IGNORECASE))))
            if re.search(r"\b(PRIMARY KEY|UNIQUE)$", rest.strip()):
                self.keys.append(name)

    @staticmethod
    def plain(name):
        """A name that is not quoted has no case in PostgreSQL; MySQL's columns never have."""
        return name.strip().strip('`"').lower()


def rows_of(rows, columns):
    """A table of constants, in the words of both dialects."""
    first, *others = ([f"'{word}'" for word in row] for row in rows)
    named = ", ".join(f"{word} AS {column}" for word, column in zip(first, columns))
    return "SELECT " + "\n  UNION ALL SELECT ".join([named] + list(map(", ".join, others)))


POSTGRES = """
SELECT 'table_differs', n.t || '.' || n.c || CASE WHEN a.attname IS NULL THEN ' is missing'
    ELSE ' is ' || format_type(a.atttypid, a.atttypmod) || ', not ' || n.k END
  FROM ({columns}) n
  JOIN pg_class r ON r.oid = to_regclass(n.t)
  LEFT JOIN pg_attribute a ON a.attrelid = r.oid AND a.attname = n.c AND NOT a.attisdropped
  LEFT JOIN pg_type y ON y.oid = a.atttypid
  WHERE a.attname IS NULL OR n.k <> CASE y.typcategory
    WHEN 'N' THEN 'a number' WHEN 'S' THEN 'text'
    WHEN 'D' THEN CASE y.typname WHEN 'timestamp' THEN n.k ELSE 'a time' END
    ELSE CASE y.typname WHEN 'bytea' THEN 'bytes' ELSE '' END END
UNION ALL SELECT 'table_differs', n.t || '.' || a.attname || ' must have a value, which holdfast '
    'does not give it'
  FROM ({tables}) n
  JOIN pg_attribute a ON a.attrelid = to_regclass(n.t) AND a.attnum > 0 AND NOT a.attisdropped
  WHERE a.attnotnull AND NOT a.atthasdef AND a.attname <> ALL (string_to_array(n.k, ','))
    AND coalesce(to_jsonb(a) ->> 'attidentity', '') = ''
UNION ALL SELECT 'table_differs', n.t || ' has no unique key (' || n.k || ')'
  FROM ({keys}) n
  JOIN pg_class r ON r.oid = to_regclass(n.t)
  WHERE NOT EXISTS (SELECT 1 FROM pg_index i
    WHERE i.indrelid = r.oid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL
      AND n.k = (SELECT string_agg(a.attname, ',' ORDER BY a.attname COLLATE "C")
        FROM pg_attribute a WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)))"""

MYSQL = """
SELECT 'table_differs', CAST(CONCAT(n.t, '.', n.c, CASE WHEN i.data_type IS NULL THEN ' is missing'
    ELSE CONCAT(' is ', i.column_type, ', not ', n.k) END) AS CHAR)
  FROM ({columns}) n
  LEFT JOIN information_schema.columns i ON i.table_schema = DATABASE() AND i.table_name = n.t
    AND i.column_name = n.c
  WHERE EXISTS (SELECT 1 FROM information_schema.tables s
      WHERE s.table_schema = DATABASE() AND s.table_name = n.t)
    AND NOT COALESCE(CASE n.k
      WHEN 'a number' THEN i.data_type LIKE '%int' OR i.data_type = 'decimal'
      WHEN 'text' THEN i.data_type LIKE '%char' OR i.data_type LIKE '%text'
        OR i.data_type IN ('varbinary', 'uuid')
      WHEN 'bytes' THEN i.data_type IN ('varbinary', 'blob', 'mediumblob', 'longblob')
      ELSE i.data_type IN ('timestamp', 'datetime') END, FALSE)
UNION ALL SELECT 'table_differs', CAST(CONCAT(n.t, '.', i.column_name,
    ' must have a value, which holdfast does not give it') AS CHAR)
  FROM ({tables}) n
  JOIN information_schema.columns i ON i.table_schema = DATABASE() AND i.table_name = n.t
  WHERE i.is_nullable = 'NO' AND i.column_default IS NULL AND i.extra = ''
    AND FIND_IN_SET(LOWER(i.column_name), n.k) = 0
UNION ALL SELECT 'table_differs', CAST(CONCAT(n.t, ' has no unique key (', n.k, ')') AS CHAR)
  FROM ({keys}) n
  WHERE EXISTS (SELECT 1 FROM information_schema.tables s
      WHERE s.table_schema = DATABASE() AND s.table_name = n.t)
    AND n.k NOT IN (SELECT GROUP_CONCAT(LOWER(s.column_name) ORDER BY LOWER(s.column_name))
      FROM information_schema.statistics s WHERE s.table_schema = DATABASE()
        AND s.table_name = n.t AND s.non_unique = 0 GROUP BY s.index_name)"""


def statement_of(creates, dialect, foreign=False):
    """`creates`: the statements that make the tables."""
    tables = [Table(statement, foreign) for statement in creates]
    return {"postgres": POSTGRES, "mysql": MYSQL}[dialect].strip().format(
        columns=rows_of([(table.name, *column) for table in tables for column in table.columns],
                        "tck"),
        tables=rows_of([(table.name, ",".join(table.known)) for table in tables], "tk"),
        keys=rows_of([(table.name, key) for table in tables for key in table.keys], "tk"))
