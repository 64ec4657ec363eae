/* SPDX-License-Identifier: Apache-2.0 */
/* Turning the loop of a driver under test, and what each driver is asked. */
#include "sql_bench.h"

#include "base/clock.h"

#include <stdio.h>

#define TIMEOUT_MS 10000
/* Faults here last for seconds: a loop that waited for them would take longer. */
#define STEP_MAX_US 1000000

static int64_t clock_of_bench(void *arg)
{
    (void)arg;
    return hf__clock_ms();
}

static void wake_bench(void *arg)
{
    (void)arg;
}

static void note_ready(void *arg)
{
    struct bench *bench = arg;
    CHECK(!bench->ready && !bench->broken);
    bench->ready = true;
}

static void note_broken(void *arg, const struct sql_failure *why)
{
    struct bench *bench = arg;
    CHECK(!bench->broken);
    bench->broken = true;
    bench->why = *why;
}

static void note_notified(void *arg, const char *payload, size_t length)
{
    (void)arg, (void)payload, (void)length;
}

static const struct sql_events events = { note_ready, note_broken, note_notified };

/* For how long the thread was ready and had to wait for a processor, so far: a loaded machine's. */
static int64_t waited_us(void)
{
    long long ran_ns = 0, waited_ns = 0;
    FILE *file = fopen("/proc/thread-self/schedstat", "re");
    if (file) {
        CHECK(fscanf(file, "%lld %lld", &ran_ns, &waited_ns) == 2);
        fclose(file);
    }
    return waited_ns / 1000;
}

static void begin_step(struct bench *bench)
{
    bench->began_us = monotonic_us() - waited_us();
}

static void end_step(struct bench *bench)
{
    int64_t took_us = monotonic_us() - waited_us() - bench->began_us;
    if (took_us > bench->longest_us)
        bench->longest_us = took_us;
}

bool turn(struct bench *bench)
{
    begin_step(bench);
    uv_run(&bench->uv, UV_RUN_NOWAIT);
    hf__loop_turn(&bench->loop);
    end_step(bench);
    return true;
}

void bench_open(struct bench *bench, const struct sql_driver *driver, int port)
{
    /* The sanitizer starts a thread of its own with the first one of the driver. */
    bench->threads = test_count_threads() + test_has_thread_sanitizer();
    hf__loop_init(&bench->loop, clock_of_bench, wake_bench, NULL);
    CHECK(uv_loop_init(&bench->uv) == 0);
    bench->host = (struct hf_host){ .loop = &bench->loop, .uv = &bench->uv };
    bench->settings = (struct sql_settings){
        .driver = driver,
        .user = SQL_SERVER_USER,
        .password = SQL_SERVER_PASSWORD,
        .database = SQL_SERVER_DATABASE,
        .tls = SQL_TLS_OFF,
        .timeout_ms = TIMEOUT_MS,
    };
    bench->place = (struct sql_place){ .host = "127.0.0.1", .port = (unsigned)port };
}

void bench_connect(struct bench *bench)
{
    const struct sql_driver *driver = bench->settings.driver;
    bench->ready = bench->broken = false;
    begin_step(bench);
    bench->connection = driver->open(&bench->host, &bench->settings, &bench->place, &events, bench);
    end_step(bench);
    CHECK(bench->connection != NULL);
}

void bench_disconnect(struct bench *bench)
{
    begin_step(bench);
    bench->settings.driver->close(bench->connection);
    end_step(bench);
}

void bench_close(struct bench *bench)
{
    EVENTUALLY(turn(bench) && uv_loop_close(&bench->uv) == 0, SOON_MS);
    CHECK(bench->longest_us < STEP_MAX_US * test_slow());
    EVENTUALLY(test_count_threads() <= bench->threads, SOON_MS);
}

void await_ready(struct bench *bench)
{
    EVENTUALLY(turn(bench) && (bench->ready || bench->broken), SOON_MS);
    if (!bench->ready)
        FAIL("cannot connect: %s", bench->why.text);
}

void await_broken(struct bench *bench)
{
    EVENTUALLY(turn(bench) && bench->broken, SOON_MS);
}

/* ---- the subjects ---- */

static const unsigned char first[] = { 0 }, second[] = { 1 }, all[] = { 0, 1, 2, 3 };

#define ONE(number, text, numbers, count)                                                          \
    [number] = { #number, number, 1, 0, (const struct sql_statement[]){ { text, numbers, count } } }
#define TWO(number, text, numbers, count, text2, numbers2, count2)                                 \
    [number] = { #number, number, 2, 1,                                                            \
                 (const struct sql_statement[]){ { text, numbers, count },                         \
                                                 { text2, numbers2, count2 } } }

#ifdef HF_SQL_MYSQL
static const struct sql_script mysql_scripts[] = {
    ONE(MAKE,
        "CREATE TABLE IF NOT EXISTS t (number BIGINT PRIMARY KEY, twin BIGINT NOT NULL DEFAULT 0)",
        NULL, 0),
    ONE(INSERT, "INSERT INTO t (number) VALUES (?)", first, 1),
    ONE(COUNT, "SELECT COUNT(*) FROM t", NULL, 0),
    ONE(TYPES, "SELECT ? + 1, CAST(? AS BINARY), CONVERT(? USING utf8mb4), ?", all, 4),
    ONE(SLEEP, "SELECT SLEEP(?)", first, 1),
    TWO(COUNTED, "INSERT INTO t (number) VALUES (?)", first, 1, "SELECT COUNT(*) FROM t", NULL, 0),
    TWO(TWICE, "INSERT INTO t (number) VALUES (?)", first, 1, "INSERT INTO t (number) VALUES (?)",
        second, 1),
    TWO(LOCK_BOTH, "UPDATE t SET twin = twin + SLEEP(1) + 1 WHERE number = ?", first, 1,
        "UPDATE t SET twin = twin + 1 WHERE number = ?", second, 1),
    ONE(SETTINGS,
        "SELECT CONCAT_WS(' ', @@tx_isolation, @@time_zone, @@autocommit, @@sql_mode, "
        "@@innodb_lock_wait_timeout, @@wait_timeout)",
        NULL, 0),
};
#endif

#ifdef HF_SQL_POSTGRES
static const struct sql_script postgres_scripts[] = {
    ONE(MAKE,
        "CREATE TABLE IF NOT EXISTS t (number BIGINT PRIMARY KEY, twin BIGINT NOT NULL DEFAULT 0)",
        NULL, 0),
    ONE(INSERT, "INSERT INTO t (number) VALUES ($1::bigint)", first, 1),
    ONE(COUNT, "SELECT COUNT(*) FROM t", NULL, 0),
    ONE(TYPES, "SELECT $1::bigint + 1, $2::bytea, $3::text, $4::text", all, 4),
    ONE(SLEEP, "SELECT pg_sleep($1::bigint)", first, 1),
    TWO(COUNTED, "INSERT INTO t (number) VALUES ($1::bigint)", first, 1, "SELECT COUNT(*) FROM t",
        NULL, 0),
    TWO(TWICE, "INSERT INTO t (number) VALUES ($1::bigint)", first, 1,
        "INSERT INTO t (number) VALUES ($1::bigint)", second, 1),
    [LOCK_BOTH] = { "LOCK_BOTH", LOCK_BOTH, 3, 2,
                    (const struct sql_statement[]){
                        { "UPDATE t SET twin = 1 WHERE number = $1::bigint", first, 1 },
                        { "SELECT pg_sleep(1)", NULL, 0 },
                        { "UPDATE t SET twin = 1 WHERE number = $1::bigint", second, 1 } } },
    ONE(SETTINGS,
        "SELECT concat_ws(' ', current_setting('transaction_isolation'), "
        "current_setting('TimeZone'), current_setting('lock_timeout'), "
        "current_setting('synchronous_commit'), current_setting('client_encoding'))",
        NULL, 0),
};
#endif

const struct subject subjects[] = {
#ifdef HF_SQL_MYSQL
    { &hf__sql_mysql, "mariadb", mysql_scripts },
#endif
#ifdef HF_SQL_POSTGRES
    { &hf__sql_postgres, "postgres", postgres_scripts },
#endif
};

const int subject_count = sizeof(subjects) / sizeof(*subjects);

/* ---- requests ---- */

static void note_answer(struct sql_request *request, const struct sql_answer *answer)
{
    struct asked *asked = (struct asked *)request;
    CHECK(!asked->answered && !asked->bench->broken);
    asked->answered = true;
    asked->turn_of_answer = asked->bench->answers++;
    asked->rows = answer->row_count;
    asked->columns = answer->column_count;
    asked->affected = answer->affected;
    if (answer->failure)
        asked->failure = *answer->failure;
    for (unsigned i = 0; answer->row_count > 0 && i < answer->column_count && i < 4; i++) {
        asked->fields[i] = answer->fields[i];
        CHECK(answer->fields[i].type == SQL_NUMBER || answer->fields[i].length <= 100);
        if (answer->fields[i].length > 0)
            memcpy(asked->bytes[i], answer->fields[i].bytes, answer->fields[i].length);
    }
}

void ask_values(struct bench *bench, const struct subject *subject, struct asked *asked, int script)
{
    asked->request = (struct sql_request){
        .script = &subject->scripts[script],
        .values = asked->values,
        .answered = note_answer,
    };
    asked->bench = bench;
    hf__link_init(&asked->request.link);
    subject->driver->run(bench->connection, &asked->request);
    CHECK(!asked->answered);
}

void ask(struct bench *bench, const struct subject *subject, struct asked *asked, int script,
         int64_t number, int64_t number2)
{
    *asked = (struct asked){
        .values = { { .type = SQL_NUMBER, .number = number },
                    { .type = SQL_NUMBER, .number = number2 } },
    };
    ask_values(bench, subject, asked, script);
}

const struct asked *reply(struct bench *bench, const struct subject *subject, int script,
                          int64_t number, int64_t number2)
{
    static struct asked asked;
    ask(bench, subject, &asked, script, number, number2);
    EVENTUALLY(turn(bench) && asked.answered, SOON_MS);
    return &asked;
}

void check_fine(const struct asked *asked)
{
    if (asked->failure.trouble != SQL_FINE)
        FAIL("%s: %s", asked->request.script->name, asked->failure.text);
}

int64_t count_rows(struct bench *bench, const struct subject *subject)
{
    const struct asked *asked = reply(bench, subject, COUNT, 0, 0);
    check_fine(asked);
    CHECK(asked->rows == 1 && asked->columns == 1 && asked->fields[0].type == SQL_NUMBER);
    return asked->fields[0].number;
}

void bench_join(struct bench *bench, const struct subject *subject, const struct sql_server *server)
{
    bench_open(bench, subject->driver, server->port);
    bench_connect(bench);
    await_ready(bench);
}

void bench_begin(struct bench *bench, const struct subject *subject, struct sql_server *server)
{
    sql_server_start(server, subject->kind);
    bench_join(bench, subject, server);
    check_fine(reply(bench, subject, MAKE, 0, 0));
}

void bench_end(struct bench *bench, struct sql_server *server)
{
    bench_disconnect(bench);
    bench_close(bench);
    if (server)
        sql_server_kill(server);
}
