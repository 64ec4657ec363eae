/* SPDX-License-Identifier: Apache-2.0 */
/* doctor --fix: the statements and settings that cure a finding, ready to paste. Nothing is run. */
#include "doctor.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { USER_SIZE = 140 };

/* A store's kind, by how its URLs begin. */
enum family { REDIS, POSTGRES, MYSQL, ETCD, ZOOKEEPER, MEMCACHED, LOCAL, FAMILIES };

static const struct {
    const char *scheme;
    const char *comment; /* what begins a line that its tool passes over */
    const char *place;   /* where statements go */
} families[FAMILIES] = {
    { "redis", "# ", "redis-cli, as an administrator, at each server" },
    { "postgres", "-- ", "psql, as an administrator or the owner of the tables" },
    { "m", "-- ", "mariadb or mysql, as an administrator or the owner of the tables" },
    { "etcd", "# ", "a shell, with etcdctl's options for your servers" },
    { "zk", "# ", "the configuration of each server, which is then started again" },
    { "memcached", "# ", "the start of each server" },
    { "local", "# ", "a shell, as the owner of the files" },
};

/* In the lines, %u is the user of the URL, %t stands for each name behind the colon of the finding,
 * %p for the number in it. A line that begins with '#' is a comment: it needs a decision. */
static const struct fix {
    enum family family; /* FAMILIES: any */
    const char *id;
    const char *what; /* a part of the finding, or NULL */
    const char *lines;
} fixes[] = {
    { REDIS, "eviction", NULL,
      "CONFIG SET maxmemory-policy noeviction\n#to keep it: CONFIG REWRITE" },
    { REDIS, "aof-off", NULL,
      "CONFIG SET appendonly yes\nCONFIG SET appendfsync always\n#to keep it: CONFIG REWRITE" },
    { REDIS, "aof-not-always", NULL, "CONFIG SET appendfsync always\n#to keep it: CONFIG REWRITE" },
    { REDIS, "cluster-coverage", NULL,
      "CONFIG SET cluster-require-full-coverage no\n#to keep it: CONFIG REWRITE" },
    { REDIS, "memory-full", NULL, "#choose: CONFIG SET maxmemory BYTES" },
    { REDIS, "clients-full", NULL, "#choose: CONFIG SET maxclients NUMBER" },
    { REDIS, "replicas-missing", NULL, "#choose: CONFIG SET min-replicas-to-write NUMBER" },
    { POSTGRES, "isolation", NULL,
      "ALTER ROLE %u SET default_transaction_isolation = 'read committed';" },
    { POSTGRES, "tables-not-logged", NULL, "ALTER TABLE %t SET LOGGED;" },
    { POSTGRES, "not-durable", "fsync = off",
      "ALTER SYSTEM SET fsync = on;\nSELECT pg_reload_conf();" },
    { POSTGRES, "not-durable", "full_page_writes = off",
      "ALTER SYSTEM SET full_page_writes = on;\nSELECT pg_reload_conf();" },
    { POSTGRES, "not-durable", "synchronous_commit = off",
      "ALTER ROLE %u SET synchronous_commit = on;" },
    { POSTGRES, "failover-forgets", "commits do not wait",
      "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)';\nSELECT pg_reload_conf();" },
    { POSTGRES, "connections-full", NULL,
      "#choose, and start the server again: ALTER SYSTEM SET max_connections = NUMBER;" },
    { MYSQL, "tables-not-logged", NULL, "ALTER TABLE %t ENGINE = InnoDB;" },
    { MYSQL, "not-durable", "innodb_flush_log_at_trx_commit",
      "SET GLOBAL innodb_flush_log_at_trx_commit = 1;\n"
      "#to keep it, in the section [mysqld]: innodb_flush_log_at_trx_commit = 1" },
    { MYSQL, "not-durable", "sync_binlog",
      "SET GLOBAL sync_binlog = 1;\n#to keep it, in the section [mysqld]: sync_binlog = 1" },
    { MYSQL, "binary-log", NULL,
      "SET GLOBAL binlog_format = 'ROW';\n"
      "#to keep it, in the section [mysqld]: binlog_format = ROW" },
    { MYSQL, "connections-full", NULL, "#choose: SET GLOBAL max_connections = NUMBER;" },
    { ETCD, "alarm", "NOSPACE",
      "etcdctl compact $(etcdctl get x --write-out=fields | sed -n 's/^\"Revision\" : //p')\n"
      "etcdctl defrag --cluster\netcdctl alarm disarm\n"
      "#and as an option of each server: --auto-compaction-retention=1h" },
    { ETCD, "alarm", NULL,
      "etcdctl alarm list\n#remove the member that it names, and add it again without its data\n"
      "#then: etcdctl alarm disarm" },
    { ETCD, "database-large", NULL,
      "etcdctl defrag --cluster\n#and as options of each server: --auto-compaction-retention=1h" },
    { ETCD, "not-compacted", NULL, "#as an option of each server: --auto-compaction-retention=1h" },
    { ZOOKEEPER, "connections-full", NULL, "#choose, in zoo.cfg: maxClientCnxns=NUMBER" },
    { ZOOKEEPER, "server-closes", NULL, "#choose, in zoo.cfg: maxClientCnxns=NUMBER" },
    { ZOOKEEPER, "small-messages", NULL, "#as a property of Java: -Djute.maxbuffer=1048575" },
    { MEMCACHED, "evicts", NULL, "#as an option of each server of locks: -M" },
    { MEMCACHED, "connections-full", NULL, "#choose, as an option of each server: -c NUMBER" },
    { LOCAL, "private-tmp", NULL,
      "#in the section [Service] of the unit: RuntimeDirectory=holdfast\n"
      "#in the section [Service] of the unit: Environment=HOLDFAST_DIR=/run/holdfast" },
    { FAMILIES, "holder-stopped", NULL, "#in a shell: kill -CONT %p" },
};

/* As the URL says it; `family` stays FAMILIES for a scheme of another kind. */
static enum family find_family(const char *url)
{
    enum family family = 0;

    while (strncmp(url, "trace:", 6) == 0 || strncmp(url, "quorum:", 7) == 0)
        url = strchr(url, ':') + 1;
    while (family < FAMILIES &&
           strncmp(url, families[family].scheme, strlen(families[family].scheme)) != 0)
        family++;
    return family == MYSQL && url[1] == 'e' ? MEMCACHED : family;
}

/* The next byte of a part of a URL. */
static unsigned char next_byte(const char **at)
{
    const char *text = *at;
    bool encoded =
        text[0] == '%' && isxdigit((unsigned char)text[1]) && isxdigit((unsigned char)text[2]);
    const char digits[3] = { text[encoded], encoded ? text[2] : '\0' };

    *at += encoded ? 3 : 1;
    return encoded ? (unsigned char)strtoul(digits, NULL, 16) : (unsigned char)*text;
}

/* As a statement has it, and in quotes where it must be: PostgreSQL doubles a quote in it,
 * redis-cli takes a backslash before it. Where the URL has no user, a word to be replaced. */
static void find_user(char user[USER_SIZE], const char *url, enum family family)
{
    const char *begin = strstr(url, "://"), *at = begin ? begin + 3 : "";
    const char *end = at + strcspn(at, ":@/?");
    bool named = end > at && end - at < USER_SIZE / 2 - 2 && memchr(at, '@', strcspn(at, "/?"));
    bool quotes = family == POSTGRES;
    size_t used = 1;

    for (user[0] = '"'; named && at < end;) {
        char byte = (char)next_byte(&at);
        bool special = byte == '"' || (byte == '\\' && family != POSTGRES);
        named = !iscntrl((unsigned char)byte);
        quotes = quotes || !(isalnum((unsigned char)byte) || strchr("_-.", byte));
        if (special)
            user[used++] = family == POSTGRES ? '"' : '\\';
        user[used++] = byte;
    }
    if (!named)
        used = (size_t)snprintf(user, USER_SIZE, "%s", family == REDIS ? "default" : "USER");
    else if (quotes)
        user[used++] = '"';
    else
        memmove(user, user + 1, --used);
    user[used] = '\0';
}

/* One line, in which %-words are replaced; with %t once for each of the names. */
static void print_line(FILE *out, const char *line, size_t length, const char *user,
                       const char *what, const char *comment)
{
    const char *names = strrchr(what, ':'), *digits = what + strcspn(what, "0123456789");
    bool is_comment = length > 0 && line[0] == '#', each = memmem(line, length, "%t", 2);

    names = names ? names + 1 + strspn(names + 1, " ") : "TABLE";
    do {
        char text[1024];
        size_t used = 0, name_length = strcspn(names, ", ");
        for (size_t i = is_comment; i < length && used < sizeof(text) - USER_SIZE; i++) {
            char word = line[i] == '%' && i + 1 < length ? line[++i] : '\0';
            if (word == 'u')
                used += (size_t)snprintf(text + used, sizeof(text) - used, "%s", user);
            else if (word == 'p')
                used += (size_t)snprintf(text + used, sizeof(text) - used, "%.*s",
                                         (int)strspn(digits, "0123456789"), digits);
            else if (word == 't')
                used += (size_t)snprintf(text + used, sizeof(text) - used, "%.*s",
                                         (int)(name_length > 60 ? 60 : name_length), names);
            else
                text[used++] = line[i];
        }
        text[used] = '\0';
        cli_say(out, "\n", "%s%s", is_comment ? comment : "", text);
        names += name_length;
        names += strspn(names, ", ");
    } while (each && *names);
}

/* Up to a comma that stands in no quotes. */
static size_t command_length(const char *text)
{
    bool quoted = false;
    size_t length = 0;

    for (; text[length] && (quoted || text[length] != ','); length++) {
        if (text[length] == '\'')
            quoted = !quoted;
        length += text[length] == '\\' && !quoted && text[length + 1];
    }
    return length;
}

/* A statement that a cure has in it, as it depends on what was found. Returns its length. */
static size_t find_statement(const char *cure, const char **statement)
{
    const char *rule = strstr(cure, "ACL SETUSER ... "), *grant = strstr(cure, "GRANT ");
    const char *last = strrchr(cure, ';');

    *statement = rule ? rule : grant ? grant : cure;
    if (rule)
        return strcspn(rule, ",;");
    if (grant)
        return last && last > grant ? (size_t)(last + 1 - grant) : strlen(grant);
    return strncmp(cure, "chmod ", 6) == 0 ? command_length(cure) : 0;
}

const char *cli_doctor_comment(const char *url)
{
    enum family family = find_family(url);

    return family < FAMILIES ? families[family].comment : "# ";
}

/* The lines go to `out`, and their number is returned: 0 where there is only the cure in words. */
static unsigned print_statements(FILE *out, const char *url, const char *id, const char *what,
                                 const char *cure)
{
    enum family family = find_family(url);
    const char *comment = cli_doctor_comment(url), *statement = NULL;
    size_t length = find_statement(cure, &statement);
    char user[USER_SIZE];
    unsigned count = 0;

    find_user(user, url, family);
    if (length > 16 && strncmp(statement, "ACL SETUSER ... ", 16) == 0) {
        cli_say(out, "\n", "ACL SETUSER %s %.*s", user, (int)length - 16, statement + 16);
        return 1;
    }
    if (length > 0) {
        cli_say(out, "\n", "%.*s", (int)length, statement);
        return 1;
    }
    for (size_t i = 0; i < sizeof(fixes) / sizeof(fixes[0]); i++) {
        const struct fix *fix = &fixes[i];
        if ((fix->family != family && fix->family != FAMILIES) || strcmp(fix->id, id) != 0 ||
            (fix->what && !strstr(what, fix->what)))
            continue;
        for (const char *line = fix->lines; *line; count++) {
            size_t end = strcspn(line, "\n");
            print_line(out, line, end, user, what, comment);
            line += end + (line[end] == '\n');
        }
        break;
    }
    return count;
}

/* The lines in memory, to be freed; NULL: there are none. */
static char *write_statements(const char *url, const char *id, const char *what, const char *cure)
{
    char *lines = NULL;
    size_t size = 0;
    FILE *kept = open_memstream(&lines, &size);
    unsigned count = kept ? print_statements(kept, url, id, what, cure) : 0;

    if (kept)
        fclose(kept);
    if (count == 0) {
        free(lines);
        return NULL;
    }
    return lines;
}

void cli_doctor_fix(FILE *out, const char *url, const char *id, const char *what, const char *cure)
{
    enum family family = find_family(url);
    const char *comment = cli_doctor_comment(url);
    char *lines = write_statements(url, id, what, cure);

    cli_say(out, "\n", "%s%s: %s", comment, id, what);
    if (!lines)
        cli_say(out, "\n", "%sby hand: %s", comment, cure);
    else if (family < FAMILIES)
        cli_say(out, "\n", "%sby %s:", comment, families[family].place);
    fputs(lines ? lines : "", out);
    fputc('\n', out);
    free(lines);
}

void cli_doctor_fix_json(FILE *out, const char *url, const char *id, const char *what,
                         const char *cure)
{
    char *lines = write_statements(url, id, what, cure);

    fputs(",\"fix\":[", out);
    for (const char *line = lines; line && *line; line += strcspn(line, "\n") + 1) {
        if (line != lines)
            fputc(',', out);
        cli_json_string(out, line, strcspn(line, "\n"));
    }
    fputc(']', out);
    free(lines);
}
