/* SPDX-License-Identifier: Apache-2.0 */
/* Locks by blocking hiredis, a connection each: the engine's own scripts with nothing around them,
 * a lock whose waiters are told and try again, and one whose waiters look now and then. */
#include "worker.h"

#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { ARGUMENTS = 12, ARGUMENT_SIZE = 128, POLL_US = 100000 };

/* A command's words, made once. */
struct words {
    int count;
    char text[ARGUMENTS][ARGUMENT_SIZE];
    const char *words[ARGUMENTS];
};

struct bare_lock {
    struct lock lock;
    redisContext *asking, *listening;
    struct words take, give;
    bool subscribed;
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverlength-strings"
static const struct {
    const char *name, *text;
} scripts[] = {
#define HF_SCRIPT(name, sha, body, sharded_sha, sharded_body) { #name, body },
#include "engines/redis/scripts.inc"
#undef HF_SCRIPT
};
#pragma GCC diagnostic pop

/* A lock as it is found in many programs: whoever lets go tells all that wait, and all try. */
static const char take_text[] =
    "if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[1]) == 1 then "
    "redis.call('hincrby', KEYS[1], ARGV[1], 1) redis.call('pexpire', KEYS[1], ARGV[2]) "
    "return -1 end return redis.call('pttl', KEYS[1])";
static const char give_text[] =
    "if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end "
    "if redis.call('hincrby', KEYS[1], ARGV[1], -1) > 0 then return 1 end "
    "redis.call('del', KEYS[1]) redis.call('publish', KEYS[2], 0) return 1";

redisContext *bare_connect(void)
{
    const struct timeval limit = { .tv_sec = 30 };
    char host[128];
    redisContext *context;
    snprintf(host, sizeof host, "%s", worker_address);
    char *colon = strrchr(host, ':');
    if (worker_address[0] == '/') {
        context = redisConnectUnix(worker_address);
    } else {
        if (!colon)
            die("no port: %s", worker_address);
        *colon = '\0';
        context = redisConnect(host, (int)strtol(colon + 1, NULL, 10));
    }
    if (!context || context->err)
        die("cannot connect to %s: %s", worker_address, context ? context->errstr : "no memory");
    redisSetTimeout(context, limit);
    return context;
}

static long long integer_of(redisContext *context, redisReply *reply)
{
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        die("the server says: %s", reply ? reply->str : context->errstr);
    const redisReply *number = reply->type == REDIS_REPLY_ARRAY ? reply->element[0] : reply;
    long long integer = number->integer;
    freeReplyObject(reply);
    return integer;
}

static long long ask(redisContext *context, struct words *words)
{
    return integer_of(context, redisCommandArgv(context, words->count, words->words, NULL));
}

__attribute__((format(printf, 2, 3))) static void add(struct words *words, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words->text[words->count], ARGUMENT_SIZE, format, arguments);
    va_end(arguments);
    words->words[words->count] = words->text[words->count];
    words->count++;
}

static void begin_script(redisContext *context, struct words *words, const char *text, int keys)
{
    redisReply *reply = redisCommand(context, "SCRIPT LOAD %s", text);
    if (!reply || reply->type != REDIS_REPLY_STRING)
        die("the server takes no script");
    words->count = 0;
    add(words, "EVALSHA");
    add(words, "%s", reply->str);
    add(words, "%d", keys);
    freeReplyObject(reply);
}

static const char *script(const char *name)
{
    for (unsigned i = 0; i < sizeof scripts / sizeof *scripts; i++)
        if (strcmp(scripts[i].name, name) == 0)
            return scripts[i].text;
    die("the engine has no script %s", name);
}

static struct bare_lock *new_lock(const struct subject *subject, const char *name)
{
    struct bare_lock *lock = allocate(sizeof *lock);
    lock->lock.subject = subject;
    snprintf(lock->lock.name, sizeof lock->lock.name, "%s", name);
    lock->asking = bare_connect();
    return lock;
}

static bool is_asked_for(const char *option)
{
    return strstr(worker_url, option) != NULL;
}

/* Unlike any other thread's or process's, and as long as a UUID and a number; who wants no tokens
 * is known by it. */
static void add_field(struct words *words, const void *self)
{
    add(words, "%08x-0000-8000-%c000-%012llx:1", (unsigned)getpid(),
        is_asked_for("fence=off") ? 'a' : '8',
        (unsigned long long)(uintptr_t)self & 0xffffffffffff);
}

/* In the place of the token after one's own, which is only looked at where somebody waits. */
static const char any_token[] = "1795374645196411";

/* What the engine sends for an uncontended mutex, word for word. */
static void write_mutex(struct bare_lock *lock, const char *name)
{
    struct words *take = &lock->take, *give = &lock->give;
    begin_script(lock->asking, take, script("MUTEX_ACQUIRE"), 3);
    add(take, "%s", name);
    add(take, "redisson_lock_token:{%s}", name);
    add(take, "holdfast_lock_queue:{%s}", name);
    add(take, "86400000");
    add(take, "60000");
    add_field(take, lock);
    add(take, "%d", LEASE_MS);
    add(take, "0");
    begin_script(lock->asking, give, script("MUTEX_RELEASE"), 4);
    add(give, "%s", name);
    add(give, "redisson_lock__channel:{%s}", name);
    add(give, "redisson_lock_token:{%s}", name);
    add(give, "holdfast_lock_queue:{%s}", name);
    add_field(give, lock);
    add(give, "%s", any_token);
}

/* The same with format=simple. */
static void write_simple(struct bare_lock *lock, const char *name)
{
    struct words *take = &lock->take, *give = &lock->give;
    begin_script(lock->asking, take, script("SIMPLE_ACQUIRE"), 2);
    add(take, "%s", name);
    add(take, "redisson_lock_token:{%s}", name);
    add_field(take, lock);
    add(take, "%d", LEASE_MS);
    add(take, "86400000");
    begin_script(lock->asking, give, script("SIMPLE_RELEASE"), 2);
    add(give, "%s", name);
    add(give, "redisson_lock_token:{%s}", name);
    add_field(give, lock);
}

static struct lock *open_bare(const struct subject *subject, const char *name)
{
    struct bare_lock *lock = new_lock(subject, name);
    if (is_asked_for("format=simple"))
        write_simple(lock, name);
    else
        write_mutex(lock, name);
    return &lock->lock;
}

static struct lock *open_retrying(const struct subject *subject, const char *name)
{
    struct bare_lock *lock = new_lock(subject, name);
    struct words *take = &lock->take, *give = &lock->give;
    lock->listening = bare_connect();
    begin_script(lock->asking, take, take_text, 1);
    add(take, "%s", name);
    add_field(take, lock);
    add(take, "%d", LEASE_MS);
    begin_script(lock->asking, give, give_text, 2);
    add(give, "%s", name);
    add(give, "redisson_lock__channel:{%s}", name);
    add_field(give, lock);
    return &lock->lock;
}

static void take_once(struct lock *base)
{
    struct bare_lock *lock = (struct bare_lock *)base;
    if (ask(lock->asking, &lock->take) != 1)
        die("%s is held by somebody else", base->name);
}

static void give(struct lock *base)
{
    struct bare_lock *lock = (struct bare_lock *)base;
    if (ask(lock->asking, &lock->give) != 1)
        die("%s was lost", base->name);
}

static void await_answer(redisContext *context)
{
    void *reply = NULL;
    if (redisGetReply(context, &reply) != REDIS_OK)
        die("the server says nothing: %s", context->errstr);
    freeReplyObject(reply);
}

/* Whoever has subscribed once stays so: what would be cheaper only while nobody waits again. */
static void take_told(struct lock *base)
{
    struct bare_lock *lock = (struct bare_lock *)base;
    while (ask(lock->asking, &lock->take) != -1) {
        if (lock->subscribed) {
            await_answer(lock->listening);
            continue;
        }
        lock->subscribed = true;
        redisReply *reply =
            redisCommand(lock->listening, "SUBSCRIBE redisson_lock__channel:{%s}", base->name);
        if (!reply)
            die("cannot subscribe: %s", lock->listening->errstr);
        freeReplyObject(reply);
    }
}

static void take_polling(struct lock *base)
{
    struct bare_lock *lock = (struct bare_lock *)base;
    while (ask(lock->asking, &lock->take) != -1)
        pause_us(POLL_US);
}

const struct subject bare = { "bare", open_bare, take_once, give };
const struct subject retrying = { "retry", open_retrying, take_told, give };
const struct subject polling = { "poll", open_retrying, take_polling, give };

static void show(const struct words *words)
{
    for (int i = 0; i < words->count; i++)
        printf("%s ", words->words[i]);
}

void bare_show_scripts(void)
{
    struct bare_lock *lock = (struct bare_lock *)open_bare(&bare, "lock:__rand_int__");
    show(&lock->take);
    putchar('\n');
    show(&lock->give);
}

static const char one_owner[] = "01234567-89ab-4def-8123-456789abcdef:1";

enum { BATCH = 100 };

void bare_fill(unsigned count)
{
    redisContext *context = bare_connect();
    unsigned out = 0;
    for (unsigned i = 0; i < count; i++) {
        redisAppendCommand(context, "HSET lock:order:%08u %s 1", i, one_owner);
        redisAppendCommand(context, "PEXPIRE lock:order:%08u 300000", i);
        out += 2;
        for (; out > 0 && (i % BATCH == 0 || i + 1 == count); out--)
            await_answer(context);
    }
    redisFree(context);
    printf("filled=%u", count);
}

void bare_renew(unsigned count)
{
    static const char text[] = "local result = {} for i = 1, #KEYS do "
                               "if redis.call('hexists', KEYS[i], ARGV[i + 1]) == 1 then "
                               "redis.call('pexpire', KEYS[i], ARGV[1]) result[i] = 1 "
                               "else result[i] = 0 end end return result";
    static char names[BATCH][32];
    const char *words[4 + 2 * BATCH] = { "EVALSHA" };
    struct words loaded;
    redisContext *context = bare_connect();
    begin_script(context, &loaded, text, BATCH);
    words[1] = loaded.words[1];
    words[2] = loaded.words[2];
    words[3 + BATCH] = "300000";
    for (unsigned first = 0; first < count; first += BATCH) {
        for (unsigned i = 0; i < BATCH; i++) {
            snprintf(names[i], sizeof names[i], "lock:order:%08u", first + i);
            words[3 + i] = names[i];
            words[4 + BATCH + i] = one_owner;
        }
        if (integer_of(context, redisCommandArgv(context, 4 + 2 * BATCH, words, NULL)) != 1)
            die("a lock was lost");
    }
    redisFree(context);
    printf("renewed=%u", count);
}
