# SPDX-License-Identifier: Apache-2.0
"""Makes the script that tells doctor where the tables are, and which rights on them are missing;
and the GRANT statements for a user that takes locks, but makes no tables.

The rows are pairs, as doctor reads them: how many of the `tables` there are, their `place` (a
schema or a database), where else there are some, and the missing rights with their `grants`."""

import re

from table_check import AUTO_NUMBER, CREATE, rows_of

RIGHTS = ("SELECT", "INSERT", "UPDATE", "DELETE")

POSTGRES = """
WITH n AS ({needs}),
c AS (SELECT n.t, n.p, n.s, r.oid, r.relpersistence, x.nspname,
    quote_ident(x.nspname) || '.' AS place
  FROM n JOIN pg_class r ON r.relname = n.t AND r.relkind IN ('r', 'p', 'v', 'f')
  JOIN pg_namespace x ON x.oid = r.relnamespace
  WHERE CASE WHEN :schema = '' THEN pg_table_is_visible(r.oid) ELSE x.nspname = :schema END),
h AS (SELECT coalesce(max(nspname)::text, nullif(:schema, ''), current_schema()::text) AS name,
    count(*) AS there FROM c),
lacks AS (
  SELECT 'TABLE' AS kind, c.place || quote_ident(c.t) AS what, r.p, r.o
  FROM c, unnest(string_to_array(c.p, ',')) WITH ORDINALITY r(p, o)
  WHERE NOT has_table_privilege(c.oid, r.p)
  -- The sequence numbers the rows: without it the first lock that is contended fails.
  UNION ALL SELECT 'SEQUENCE', c.place || quote_ident(q.relname), 'USAGE', 1
  FROM c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = c.s
  JOIN pg_depend d ON d.refobjid = c.oid AND d.refobjsubid = a.attnum AND d.deptype = 'a'
  JOIN pg_class q ON q.oid = d.objid AND q.relkind = 'S'
  WHERE NOT has_sequence_privilege(q.oid, 'USAGE')
  UNION ALL SELECT 'SCHEMA', quote_ident(x.nspname), p.p, p.o
  FROM h JOIN pg_namespace x ON x.nspname = h.name, (VALUES ('USAGE', 1), ('CREATE', 2)) p(p, o)
  WHERE NOT has_schema_privilege(x.oid, p.p)
    AND (p.p = 'USAGE' OR {makes} AND h.there < (SELECT count(*) FROM n))),
g AS (SELECT kind, p, string_agg(what, ', ' ORDER BY what) AS what
  FROM (SELECT kind, what, string_agg(p, ', ' ORDER BY o) AS p FROM lacks GROUP BY kind, what) w
  GROUP BY kind, p)
SELECT 'tables', there::text FROM h
UNION ALL SELECT 'place', name FROM h
UNION ALL SELECT 'elsewhere', string_agg(quote_ident(x.nspname), ', ' ORDER BY x.nspname)
  FROM pg_class r JOIN pg_namespace x ON x.oid = r.relnamespace JOIN h ON x.nspname <> h.name
  WHERE r.relname = (SELECT min(t) FROM n WHERE t <> 'hf_hold') AND r.relkind IN ('r', 'p')
    AND x.nspname NOT LIKE 'pg\\_%'
UNION ALL SELECT 'unsafe_tables', string_agg(t, ', ') FROM c WHERE relpersistence NOT IN ('p')
UNION ALL SELECT 'missing_rights', string_agg(p || ' on ' || CASE kind WHEN 'TABLE' THEN ''
    ELSE 'the ' || lower(kind) || ' ' END || what, '; ' ORDER BY kind DESC, p) FROM g
UNION ALL SELECT 'missing_rights', 'CREATE on the schema of the search path'
  FROM h WHERE name IS NULL
UNION ALL SELECT x.f, x.v FROM h, (VALUES ('missing_rights', 'a schema ' || quote_ident(:schema)),
    ('grants', 'CREATE SCHEMA ' || quote_ident(:schema) || ' AUTHORIZATION '
      || quote_ident(current_user) || ';')) x(f, v)
  WHERE :schema <> '' AND NOT EXISTS (SELECT 1 FROM pg_namespace p WHERE p.nspname = :schema)
UNION ALL SELECT 'grants', string_agg('GRANT ' || p || ' ON ' || kind || ' ' || what || ' TO '
    || quote_ident(current_user) || ';', ' ' ORDER BY kind DESC, p) FROM g"""

# A table on which the user has no right at all is not shown to it. Rights on tables that are not
# there cannot be granted, so those are of the whole database.
MYSQL = """
WITH n AS (SELECT w.t, r.p, r.o FROM ({needs}) w
    JOIN ({rights}) r ON FIND_IN_SET(r.p, w.p)),
there AS (SELECT COUNT(*) AS number FROM information_schema.tables
  WHERE table_schema = DATABASE() AND table_name IN (SELECT t FROM n)),
me AS (SELECT CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''') AS name),
lacks AS (
  SELECT CASE WHEN {makes} AND number < {count} THEN '*' ELSE CONCAT('`', n.t, '`') END AS what,
    n.p, n.o
  FROM n, there, me
  WHERE NOT EXISTS (SELECT 1 FROM information_schema.user_privileges u
      WHERE u.privilege_type = n.p AND u.grantee = me.name)
    AND NOT EXISTS (SELECT 1 FROM information_schema.schema_privileges s
      WHERE s.privilege_type = n.p AND DATABASE() LIKE s.table_schema AND s.grantee = me.name)
    AND NOT EXISTS (SELECT 1 FROM information_schema.table_privileges t
      WHERE t.privilege_type = n.p AND t.table_schema = DATABASE() AND t.table_name = n.t
        AND t.grantee = me.name)
    AND (n.p <> 'CREATE' OR number < {count})),
g AS (SELECT what, GROUP_CONCAT(DISTINCT p ORDER BY o SEPARATOR ', ') AS p FROM lacks
  GROUP BY what)
SELECT 'tables', CAST(number AS CHAR) FROM there
UNION ALL SELECT 'place', CAST(DATABASE() AS CHAR)
UNION ALL SELECT 'unsafe_tables', CAST(GROUP_CONCAT(table_name SEPARATOR ', ') AS CHAR)
  FROM information_schema.tables
  WHERE table_schema = DATABASE() AND table_name IN (SELECT t FROM n) AND engine <> 'InnoDB'
UNION ALL SELECT 'missing_rights', CAST(GROUP_CONCAT(CONCAT(p, ' on ', IF(what = '*',
    CONCAT('the database `', DATABASE(), '`'), what)) ORDER BY what SEPARATOR '; ') AS CHAR) FROM g
UNION ALL SELECT 'grants', CAST(GROUP_CONCAT(CONCAT('GRANT ', p, ' ON `', DATABASE(), '`.', what,
    ' TO ', me.name, ';') ORDER BY what SEPARATOR ' ') AS CHAR) FROM g, me"""


class Need:
    """What a user needs on a table that this statement makes."""

    def __init__(self, statement, dialect, rights):
        self.written, body = CREATE.match(statement).groups()
        self.name = self.written.lower() if dialect == "postgres" else self.written
        self.rights = rights
        # The column that the database numbers by itself.
        self.serial = next((line.split()[0].strip('`"') for line in re.split(r",\n", body.strip())
                            if AUTO_NUMBER.search(line)), "")


def needs_of(scripts, dialect, foreign):
    """Tables of other programs are not made unasked. Where a release deletes nothing, neither does
    anything else that a lock needs."""
    deletes = not foreign or any(statement.startswith("DELETE")
                                 for statement in scripts["mutex_release"])
    rights = RIGHTS if deletes else RIGHTS[:-1]
    return [Need(statement, dialect, rights) for statement in scripts["schema"]]


def statement_of(scripts, dialect, foreign=False):
    """`scripts`: name to statements."""
    needs = needs_of(scripts, dialect, foreign)
    more = () if foreign or dialect == "postgres" else ("CREATE",)
    return {"postgres": POSTGRES, "mysql": MYSQL}[dialect].strip().format(
        needs=rows_of([(need.name, ",".join(need.rights + more), need.serial) for need in needs],
                      "tps"),
        rights=rows_of([(right, f"{i}") for i, right in enumerate(RIGHTS + ("CREATE",))], "po"),
        makes="FALSE" if foreign else "TRUE", count=len(needs))


def grants_of(scripts, dialect, foreign=False):
    """With USER for its name."""
    needs = needs_of(scripts, dialect, foreign)
    rights = ", ".join(needs[0].rights)
    if dialect == "mysql":
        return [f"GRANT {rights} ON `{need.name}` TO USER" for need in needs]
    return ([f"GRANT {rights} ON {', '.join(need.written for need in needs)} TO USER"]
            + [f"GRANT USAGE ON SEQUENCE {need.name}_{need.serial}_seq TO USER"
               for need in needs if need.serial])
