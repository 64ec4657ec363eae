/* SPDX-License-Identifier: Apache-2.0 */
/* What is said to the database about its named locks. Each has one statement. What is locked is
 * answered as: 1 if it is, the server's clock in microseconds, and the session's number. The clock
 * is read behind the lock, so later owners read later times. */
#include "engines/sql/session/session.h"

/* Numbered behind the scripts of the tables, as a connection prepares by number. */
#define NUMBER_OF(word, pair) (SQL_SCRIPT_COUNT + (pair)*SESSION_WORD_COUNT + SESSION_##word)
#define NUMBERS(...) ((const unsigned char[]){ __VA_ARGS__ })
#define SCRIPT(word, pair, text_, ...)                                                             \
    {                                                                                              \
        .name = #word, .number = NUMBER_OF(word, pair), .count = 1,                                \
        .statements = &(const struct sql_statement)                                                \
        {                                                                                          \
            text_, NUMBERS(__VA_ARGS__), sizeof NUMBERS(__VA_ARGS__)                               \
        }                                                                                          \
    }
#define WORDS(word, pair, text_)                                                                   \
    {                                                                                              \
        .name = #word, .number = NUMBER_OF(word, pair), .count = 1,                                \
        .statements = &(const struct sql_statement)                                                \
        {                                                                                          \
            text_, NULL, 0                                                                         \
        }                                                                                          \
    }

_Static_assert(SQL_SCRIPT_COUNT + 2 * SESSION_WORD_COUNT <= SQL_SCRIPTS_MAX,
               "more scripts than a connection can prepare");

/* ---- PostgreSQL ---- */

#define PG_SEEN ", (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, pg_backend_pid()"
#define ONE "$1"
#define TWO "$1::int4, $2::int4"

#define PG_LOCK(word, function, seen)                                                              \
    [SESSION_##                                                                                    \
        word] = { SCRIPT(word, 0, "SELECT " function "(" ONE ")" seen, SQL_P_VALUE),               \
                  SCRIPT(word, 1, "SELECT " function "(" TWO ")" seen, SQL_P_VALUE, SQL_P_LIMIT) }
#define PG_BOTH(word, text) [SESSION_##word] = { WORDS(word, 0, text), WORDS(word, 1, text) }
#define PG_SAME(word, text, ...)                                                                   \
    [SESSION_##word] = { SCRIPT(word, 0, text, __VA_ARGS__), SCRIPT(word, 1, text, __VA_ARGS__) }

/* A setting that an older version lacks stays as it is. */
#define PG_SET(name, value)                                                                        \
    ", CASE WHEN current_setting('" name "', true) IS NOT NULL THEN set_config('" name "', " value \
    "::text, false) END"

/* The advisory locks of this database, without those by which holdfast finds a session. The key of
 * a holder names all that its session has locked, so that breaking ends no more than was shown. */
#define PG_LOCKS                                                                                   \
    "WITH seen AS (SELECT l.pid, l.classid::bigint AS high, l.objid::bigint AS low,"               \
    " l.objsubid::bigint AS form, l.granted, l.mode, to_jsonb(l) ->> 'waitstart' AS waits,"        \
    " a.application_name, a.usename, coalesce(a.client_hostname, host(a.client_addr), '') AS host" \
    " FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid"                               \
    " WHERE l.locktype = 'advisory'"                                                               \
    " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"           \
    " AND NOT (l.objsubid = 1 AND a.application_name LIKE 'holdfast%'"                             \
    " AND (l.classid::bigint << 32 | l.objid::bigint)"                                             \
    " = ('x' || substr(md5(a.application_name), 1, 16))::bit(64)::bigint)),"                       \
    " whole AS (SELECT pid, count(*) AS locks, pid || '-' || substr(md5(string_agg("               \
    "concat_ws(',', high, low, form, mode), ';' ORDER BY high, low, form, mode)), 1, 8) AS key,"   \
    " left(string_agg(CASE form WHEN 1 THEN (high << 32 | low)::text"                              \
    " ELSE concat(high::bit(32)::int, ':', low::bit(32)::int) END, ', ' ORDER BY high, low), 120)" \
    " AS told FROM seen WHERE granted GROUP BY pid)"

static const struct sql_script postgres[SESSION_WORD_COUNT][2] = {
    PG_LOCK(TRY, "pg_try_advisory_lock", PG_SEEN),
    PG_LOCK(WAIT, "pg_advisory_lock", PG_SEEN),
    PG_LOCK(UNLOCK, "pg_advisory_unlock", PG_SEEN),
    PG_LOCK(TRY_SHARED, "pg_try_advisory_lock_shared", PG_SEEN),
    PG_LOCK(WAIT_SHARED, "pg_advisory_lock_shared", PG_SEEN),
    PG_LOCK(UNLOCK_SHARED, "pg_advisory_unlock_shared", PG_SEEN),
    /* The session's own lock does not keep it out. */
    [SESSION_LOWER] = { SCRIPT(LOWER, 0,
                               "SELECT pg_advisory_lock_shared($1) IS NOT NULL"
                               " AND pg_advisory_unlock($1)" PG_SEEN,
                               SQL_P_VALUE),
                        SCRIPT(LOWER, 1,
                               "SELECT pg_advisory_lock_shared($1::int4, $2::int4) IS NOT NULL"
                               " AND pg_advisory_unlock($1::int4, $2::int4)" PG_SEEN,
                               SQL_P_VALUE, SQL_P_LIMIT) },
    PG_BOTH(BEAT, "SELECT 1" PG_SEEN),
    PG_SAME(CANCEL, "SELECT pg_cancel_backend($1::int4)", SQL_P_VALUE),
    /* No setting of the server's ends the session, or its connection, before its client has stopped
     * believing in it. */
    PG_SAME(SET_UP,
            "SELECT set_config('lock_timeout', '0', false)" PG_SET("idle_session_timeout", "$1")
                PG_SET("tcp_user_timeout", "$1") PG_SET("tcp_keepalives_idle", "($1 / 1000 + 1)")
                    PG_SET("tcp_keepalives_interval", "3") PG_SET("tcp_keepalives_count", "3"),
            SQL_P_LEASE_US),
    PG_BOTH(FACTS, "SELECT pg_backend_pid(), 1, ''"),
    /* Holders first, then those that wait, the oldest first. */
    PG_SAME(SHOW,
            PG_LOCKS
            " SELECT s.granted, s.mode = 'ShareLock', s.pid::bigint, coalesce(w.key, s.pid::text),"
            " coalesce(s.application_name, ''), s.host, coalesce(s.usename, ''),"
            " coalesce(w.told, ''), coalesce(w.locks, 0), s.high, s.low, s.form,"
            " coalesce((extract(epoch FROM clock_timestamp() - s.waits::timestamptz) * 1000)"
            "::bigint, -1)"
            " FROM seen s LEFT JOIN whole w ON w.pid = s.pid"
            " WHERE $3 = 0 OR (s.high = $1 AND s.low = $2 AND s.form = $3)"
            " ORDER BY s.form, s.high, s.low, s.granted DESC, s.waits",
            SQL_P_VALUE, SQL_P_LIMIT, SQL_P_VERB),
    PG_SAME(BREAK,
            PG_LOCKS ", holders AS (SELECT DISTINCT w.* FROM whole w JOIN seen s ON s.pid = w.pid"
                     " WHERE s.granted AND s.high = $1 AND s.low = $2 AND s.form = $3)"
                     " SELECT h.pid::bigint, h.locks, h.told, coalesce(h.key = $4::text, true),"
                     " CASE WHEN h.pid <> pg_backend_pid() AND CASE WHEN $4::text IS NULL"
                     " THEN (SELECT max(locks) FROM holders WHERE pid <> pg_backend_pid()) = 1"
                     " ELSE h.key = $4::text END"
                     " THEN pg_terminate_backend(h.pid) ELSE false END FROM holders h",
            SQL_P_VALUE, SQL_P_LIMIT, SQL_P_VERB, SQL_P_INFO_TEXT),
    PG_BOTH(DOCTOR, "SELECT current_setting('server_version'), current_user::text,"
                    " coalesce(current_setting('idle_session_timeout', true), ''),"
                    " (SELECT setting FROM pg_settings WHERE name = 'max_connections')::bigint,"
                    " (SELECT count(*) FROM pg_stat_activity),"
                    " (SELECT count(*) FROM pg_stat_replication),"
                    " (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,"
                    " current_setting('server_version_num')::bigint"),
};

/* ---- MySQL and MariaDB ---- */

#define MY_SEEN ", TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)), CONNECTION_ID()"

#define MY_WAITED "/*M!100100 TIME_MS */ /*!50700 TIME * 1000 */"
#define MY_TOLD(column)                                                                            \
    " COALESCE(LEFT(GROUP_CONCAT(" column " ORDER BY " column " SEPARATOR ', '), 120), ''),"       \
    " CONCAT(IS_USED_LOCK(?), '-', COALESCE(LEFT(MD5(GROUP_CONCAT(" column " ORDER BY " column     \
    ")), 8), ''))"
/* The names by which holdfast finds a session are no locks of a user's. */
#define MY_NOT_OURS(column) " " column " NOT REGEXP '^holdfast[0-9a-f]{32}s[0-9]+$'"

/* MariaDB has no "for ever". */
static const struct sql_script mysql[SESSION_WORD_COUNT] = {
    [SESSION_TRY] = SCRIPT(TRY, 0, "SELECT GET_LOCK(?, 0)" MY_SEEN, SQL_P_NAME_TEXT),
    [SESSION_WAIT] = { .name = "WAIT",
                       .number = NUMBER_OF(WAIT, 0),
                       .count = 1,
                       .plain = true,
                       .statements =
                           &(const struct sql_statement){ "SELECT GET_LOCK(?, 31536000)" MY_SEEN,
                                                          NUMBERS(SQL_P_NAME_TEXT), 1 } },
    [SESSION_UNLOCK] = SCRIPT(UNLOCK, 0, "SELECT RELEASE_LOCK(?)" MY_SEEN, SQL_P_NAME_TEXT),
    [SESSION_BEAT] = WORDS(BEAT, 0, "SELECT 1" MY_SEEN),
    [SESSION_CANCEL] = SCRIPT(CANCEL, 0, "KILL QUERY ?", SQL_P_VALUE),
    [SESSION_SET_UP] = SCRIPT(SET_UP, 0, "SET SESSION wait_timeout = ?", SQL_P_LEASE_US),
    [SESSION_FACTS] = WORDS(FACTS, 0,
                            "SELECT CONNECTION_ID(),"
                            " SLEEP(0.001) * 0 + (SYSDATE(6) > NOW(6)), VERSION()"),
    [SESSION_CLUSTER] = WORDS(CLUSTER, 0, "SHOW GLOBAL VARIABLES LIKE 'wsrep_on'"),
    /* A user sees its own sessions; with the right PROCESS, all. */
    [SESSION_SHOW] =
        SCRIPT(SHOW, 0,
               "SELECT 1, 0, h.id, '', '', COALESCE(p.HOST, ''), COALESCE(p.USER, ''), '', 0, 0,"
               " 0, 0, -1 FROM (SELECT IS_USED_LOCK(?) AS id) h"
               " LEFT JOIN information_schema.PROCESSLIST p ON p.ID = h.id"
               " WHERE h.id IS NOT NULL UNION ALL"
               " SELECT 0, 0, ID, CAST(ID AS CHAR), '', HOST, USER, '', 0, 0, 0, 0,"
               " CAST(" MY_WAITED " AS SIGNED) FROM information_schema.PROCESSLIST"
               " WHERE STATE = 'User lock' AND"
               " (INSTR(INFO, CONCAT('GET_LOCK(_utf8mb4 x''', LOWER(HEX(?)), '''')) > 0"
               " OR INSTR(INFO, CONCAT('GET_LOCK(''', ?, '''')) > 0) ORDER BY 1 DESC, 13 DESC, 3",
               SQL_P_NAME_TEXT, SQL_P_NAME_TEXT, SQL_P_NAME_TEXT),
    /* What else the holder's session has locked, for users that may see it. */
    [SESSION_LOCKS] = SCRIPT(
        LOCKS, 0,
        "SELECT IS_USED_LOCK(?), COUNT(*)," MY_TOLD(
            "OBJECT_NAME") " FROM performance_schema.metadata_locks l"
                           " JOIN performance_schema.threads t ON t.THREAD_ID = l.OWNER_THREAD_ID"
                           " WHERE OBJECT_TYPE = 'USER LEVEL LOCK' AND LOCK_STATUS = 'GRANTED'"
                           " AND t.PROCESSLIST_ID = IS_USED_LOCK(?) AND" MY_NOT_OURS("OBJECT_NAME"),
        SQL_P_NAME_TEXT, SQL_P_NAME_TEXT, SQL_P_NAME_TEXT),
    [SESSION_LOCKS_PLUGIN] = SCRIPT(
        LOCKS_PLUGIN, 0,
        "SELECT IS_USED_LOCK(?), COUNT(*)," MY_TOLD(
            "TABLE_SCHEMA") " FROM information_schema.METADATA_LOCK_INFO WHERE LOCK_TYPE = 'User "
                            "lock'"
                            " AND THREAD_ID = IS_USED_LOCK(?) AND" MY_NOT_OURS("TABLE_SCHEMA"),
        SQL_P_NAME_TEXT, SQL_P_NAME_TEXT, SQL_P_NAME_TEXT),
    [SESSION_END] = SCRIPT(END, 0, "KILL CONNECTION ?", SQL_P_VALUE),
    [SESSION_DOCTOR] = WORDS(DOCTOR, 0,
                             "SELECT VERSION(), CURRENT_USER(), @@session.wait_timeout,"
                             " @@max_connections, -1, -1,"
                             " TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)), 0"),
};

const struct sql_script *hf__session_script(enum sql_dialect dialect, enum session_word word,
                                            bool pair)
{
    const struct sql_script *script =
        dialect == SQL_POSTGRES ? &postgres[word][pair] : &mysql[word];
    return script->statements ? script : NULL;
}
