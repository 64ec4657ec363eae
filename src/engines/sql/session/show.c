/* SPDX-License-Identifier: Apache-2.0 */
/* Holders and waiters, as the server shows them, and breaking. Ending a session takes all its locks
 * away, so that is done only if they have been told: a holder's key names them all. */
#include "engines/sql/session/session.h"

#include "base/testing.h"
#include "engines/sql/sql.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The number of looks at a session that was told to end. */
#define LOOKS 200u
#define TEXT_SIZE 200u

enum column {
    COLUMN_GRANTED,
    COLUMN_SHARED,
    COLUMN_SESSION,
    COLUMN_KEY,
    COLUMN_PROGRAM,
    COLUMN_HOST,
    COLUMN_USER,
    COLUMN_TOLD,
    COLUMN_LOCKS,
    COLUMN_HIGH, /* MySQL: no more of them */
    COLUMN_LOW,
    COLUMN_FORM,
    COLUMN_WAITED_MS
};

static struct session_request *request_about(struct sessions *all, struct hf_oneshot *oneshot,
                                             session_done *done)
{
    struct session_request *request = hf__session_request(&all->seats[0], NULL, done);
    if (request) {
        request->oneshot = oneshot;
        request->request.reads = oneshot->verb == HF_ONESHOT_INSPECT;
        return request;
    }
    hf__explain(&oneshot->error, HF_ENOMEM, 0, "out of memory for a request");
    hf__session_oneshot_ends(all, oneshot, HF_ENOMEM);
    return NULL;
}

/* ---- showing ---- */

static void show_copy_text(char text[TEXT_SIZE], const struct sql_answer *answer, unsigned row,
                           enum column column)
{
    const struct sql_value *value = hf__answer_field(answer, row, column);
    int length = value && value->bytes ? (int)value->length : 0;
    snprintf(text, TEXT_SIZE, "%.*s", length, length ? value->bytes : "");
}

/* What MySQL tells by other statements: what the holder's session has locked besides. */
struct holder {
    int64_t id, locks; /* 0: not known */
    int64_t ended_id;  /* the session that KILL has been sent to */
    unsigned looks;
    char told[TEXT_SIZE], key[TEXT_SIZE];
    void (*then)(struct session_request *request, struct holder *holder);
};

struct shown {
    hf_entry entry;
    char name[TEXT_SIZE], key[TEXT_SIZE], told[TEXT_SIZE], text[4 * TEXT_SIZE], host[TEXT_SIZE];
};

/* Of this client more is known. `id` 0: on any session. */
static struct session_claim *find_own(struct sessions *all, const struct session_key *key,
                                      int64_t id)
{
    for (unsigned i = 0; i < all->seat_count; i++) {
        struct session_seat *seat = &all->seats[i];
        if (id != 0 && (!seat->session || seat->session->id != id))
            continue;
        HF_LIST_FOREACH (link, following, &seat->claims) {
            struct session_claim *claim = HF_CONTAINER(link, struct session_claim, link);
            if (claim->op && hf__session_key_is(&claim->key, key))
                return claim;
        }
    }
    return NULL;
}

static struct session_key key_of(const struct session_request *request,
                                 const struct sql_answer *answer, unsigned row)
{
    struct session_key key = request->key;
    int64_t high = hf__session_field(answer, row, COLUMN_HIGH);
    int64_t low = hf__session_field(answer, row, COLUMN_LOW);
    if (*key.text)
        return key;
    memset(&key, 0, sizeof key);
    key.pair = hf__session_field(answer, row, COLUMN_FORM) == 2;
    key.number = key.pair ? (int32_t)high : (int64_t)((uint64_t)high << 32 | (uint64_t)low);
    key.second = key.pair ? (int32_t)low : 0;
    return key;
}

static void name_entry(struct shown *shown, const struct hf_oneshot *oneshot,
                       const struct session_key *key, const struct session_claim *own)
{
    hf_entry *entry = &shown->entry;
    hf__session_key_write(shown->name, sizeof shown->name, key);
    entry->name = oneshot->name ? oneshot->name : own ? own->op->in.name : shown->name;
    entry->name_length = strlen(entry->name);
    entry->size = sizeof *entry;
    entry->owner_key = entry->owner_text = entry->host = "";
    entry->since_ms = entry->lease_left_ms = -1;
}

static hf_kind kind_of(hf_mode mode, bool shared)
{
    return mode == HF_FAIR ? HF_KIND_FAIR : shared || mode == HF_WRITE ? HF_KIND_RW : HF_KIND_MUTEX;
}

static void describe_own(struct shown *shown, const struct session_claim *own)
{
    const struct hf_host *host = own->all->base.host;
    const struct hf_lease *lease = own->op->out.rests_on;
    hf_entry *entry = &shown->entry;
    entry->owner_text = own->op->in.owner_text ? own->op->in.owner_text : host->owner_text;
    entry->host = host->host_name ? host->host_name : "";
    entry->pid = getpid();
    entry->mode = own->shared ? HF_READ : own->op->in.mode;
    if (entry->role != HF_ROLE_HOLDER || !lease)
        return;
    int64_t ends_ms = lease->ends_at_ms ? lease->ends_at_ms : lease->asked_at_ms + lease->lease_ms;
    entry->token = own->token;
    entry->lease_left_ms = ends_ms - hf__session_now(own->all);
}

static void describe_other(struct shown *shown, const struct sql_answer *answer, unsigned row,
                           int64_t locks)
{
    char program[TEXT_SIZE], user[TEXT_SIZE];
    show_copy_text(program, answer, row, COLUMN_PROGRAM);
    show_copy_text(user, answer, row, COLUMN_USER);
    show_copy_text(shown->host, answer, row, COLUMN_HOST);
    snprintf(shown->text, sizeof shown->text, "%s%s%s (session %lld%s%s)",
             *program ? program : user, *program ? ", " : "", *program ? user : "",
             (long long)hf__session_field(answer, row, COLUMN_SESSION),
             locks > 1 ? ", which holds " : "", locks > 1 ? shown->told : "");
    shown->entry.owner_text = shown->text;
    shown->entry.host = shown->host;
}

static void show_add_entry(struct session_request *request, const struct sql_answer *answer,
                           unsigned row, unsigned rank)
{
    struct sessions *all = request->seat->all;
    struct hf_oneshot *oneshot = request->oneshot;
    const struct holder *holder = oneshot->engine_pointer;
    struct session_key key = key_of(request, answer, row);
    bool shared = hf__session_field(answer, row, COLUMN_SHARED) == 1;
    int64_t locks = holder && !rank ? holder->locks : hf__session_field(answer, row, COLUMN_LOCKS);
    struct shown shown = { .entry = { .rank = rank } };
    struct session_claim *own = find_own(all, &key, hf__session_field(answer, row, COLUMN_SESSION));
    name_entry(&shown, oneshot, &key, find_own(all, &key, 0));
    shown.entry.role = rank ? HF_ROLE_WAITER : HF_ROLE_HOLDER;
    const struct session_claim *any = own ? own : find_own(all, &key, 0);
    shown.entry.mode = shared ? HF_READ : any ? any->op->in.mode : HF_MUTEX;
    shown.entry.kind = kind_of(shown.entry.mode, shared);
    show_copy_text(shown.key, answer, row, COLUMN_KEY);
    show_copy_text(shown.told, answer, row, COLUMN_TOLD);
    if (holder && !rank) {
        snprintf(shown.key, sizeof shown.key, "%s", holder->key);
        snprintf(shown.told, sizeof shown.told, "%s", holder->told);
    }
    shown.entry.owner_key = shown.key;
    if (rank)
        shown.entry.since_ms = hf__session_field(answer, row, COLUMN_WAITED_MS);
    if (own)
        describe_own(&shown, own);
    else
        describe_other(&shown, answer, row, locks);
    hf__oneshot_entry(oneshot, &shown.entry);
}

static bool is_same_name(const struct sql_answer *answer, unsigned row)
{
    for (unsigned column = COLUMN_HIGH; column <= COLUMN_FORM; column++)
        if (hf__session_field(answer, row, column) != hf__session_field(answer, row - 1, column))
            return false;
    return true;
}

static void add_object(struct session_request *request, const struct sql_answer *answer,
                       unsigned row)
{
    struct session_key key = key_of(request, answer, row);
    struct session_claim *own = find_own(request->seat->all, &key, 0);
    bool shared = hf__session_field(answer, row, COLUMN_SHARED) == 1;
    struct shown shown = { .entry = { .role = HF_ROLE_OBJECT } };
    name_entry(&shown, request->oneshot, &key, own);
    shown.entry.kind = kind_of(own ? own->op->in.mode : HF_MUTEX, shared);
    shown.entry.token = own && own->state == SESSION_CLAIM_HELD ? own->token : 0;
    hf__oneshot_entry(request->oneshot, &shown.entry);
}

static void shown_answered(struct session_request *request, const struct sql_answer *answer)
{
    struct sessions *all = request->seat->all;
    struct hf_oneshot *oneshot = request->oneshot;
    unsigned rank = 0;
    if (answer->failure) {
        hf__session_oneshot_failed(request, answer);
        return;
    }
    for (unsigned row = 0; row < answer->row_count && !oneshot->unwanted; row++) {
        bool first = row == 0 || !is_same_name(answer, row);
        bool holds = hf__session_field(answer, row, COLUMN_GRANTED) == 1;
        rank = holds ? 0 : first ? 1 : rank + 1;
        if (first)
            add_object(request, answer, row);
        show_add_entry(request, answer, row, rank);
    }
    oneshot->contacted = true;
    hf__session_oneshot_ends(all, oneshot, HF_OK);
}

/* ---- what MySQL's holder has locked besides ---- */

static void locks_known(struct session_request *request, const struct sql_answer *answer);

static void ask_for_locks(struct sessions *all, struct hf_oneshot *oneshot,
                          const struct session_key *key, enum session_word word)
{
    struct session_request *request = request_about(all, oneshot, locks_known);
    if (!request)
        return;
    request->tries = word == SESSION_LOCKS ? 0 : word == SESSION_LOCKS_PLUGIN ? 1 : 2;
    hf__session_request_key(request, key);
    hf__session_run(request, word);
}

static void locks_known(struct session_request *request, const struct sql_answer *answer)
{
    struct hf_oneshot *oneshot = request->oneshot;
    struct holder *holder = oneshot->engine_pointer;
    if (answer->failure && answer->failure->trouble == SQL_LOST) {
        hf__session_oneshot_failed(request, answer);
        return;
    }
    if (request->tries == 0)
        holder->id = holder->locks = 0;
    if (!answer->failure && request->tries == 2) {
        bool held = hf__session_field(answer, 0, COLUMN_GRANTED) == 1;
        holder->id = held ? hf__session_field(answer, 0, COLUMN_SESSION) : 0;
        snprintf(holder->key, sizeof holder->key, "%lld", (long long)holder->id);
    } else if (!answer->failure) {
        holder->id = hf__session_field(answer, 0, 0);
        holder->locks = hf__session_field(answer, 0, 1);
        show_copy_text(holder->told, answer, 0, 2);
        show_copy_text(holder->key, answer, 0, 3);
    }
    /* Both views may be empty although they are there. Without a right to them, the list of
     * sessions tells the holder at least. */
    if (holder->locks == 0 && request->tries < 2 && (request->tries == 0 || answer->failure))
        ask_for_locks(request->seat->all, oneshot, &request->key,
                      request->tries == 0 ? SESSION_LOCKS_PLUGIN : SESSION_SHOW);
    else
        holder->then(request, holder);
}

static void look_for_holder(struct sessions *all, struct hf_oneshot *oneshot,
                            const struct session_key *key,
                            void (*then)(struct session_request *, struct holder *))
{
    struct holder *holder = hf__calloc(1, sizeof *holder);
    if (!holder) {
        hf__explain(&oneshot->error, HF_ENOMEM, 0, "out of memory for a request");
        hf__session_oneshot_ends(all, oneshot, HF_ENOMEM);
        return;
    }
    holder->then = then;
    oneshot->engine_pointer = holder;
    ask_for_locks(all, oneshot, key, SESSION_LOCKS);
}

static void show_with_holder(struct session_request *request, struct holder *holder)
{
    struct session_request *next =
        request_about(request->seat->all, request->oneshot, shown_answered);
    (void)holder;
    if (!next)
        return;
    hf__session_request_key(next, &request->key);
    hf__session_run(next, SESSION_SHOW);
}

/* Without a list of the server's: what this client has. */
static void own_shown(struct session_request *request, const struct sql_answer *answer)
{
    struct sessions *all = request->seat->all;
    if (answer->failure) {
        hf__session_oneshot_failed(request, answer);
        return;
    }
    for (unsigned i = 0; i < all->seat_count; i++)
        HF_LIST_FOREACH (link, following, &all->seats[i].claims) {
            struct session_claim *own = HF_CONTAINER(link, struct session_claim, link);
            struct shown shown = { .entry = { .role = HF_ROLE_OBJECT } };
            if (!own->op || own->state != SESSION_CLAIM_HELD)
                continue;
            name_entry(&shown, request->oneshot, &own->key, own);
            shown.entry.kind = kind_of(own->op->in.mode, false);
            shown.entry.token = own->token;
            hf__oneshot_entry(request->oneshot, &shown.entry);
            shown.entry.role = HF_ROLE_HOLDER;
            describe_own(&shown, own);
            hf__oneshot_entry(request->oneshot, &shown.entry);
        }
    request->oneshot->contacted = true;
    hf__session_oneshot_ends(all, request->oneshot, HF_OK);
}

/* PostgreSQL shows a number in two halves. */
static void set_halves(struct session_request *request, const struct session_key *key)
{
    uint64_t number = (uint64_t)key->number;
    hf__session_request_key(request, key);
    hf__session_number(request, SQL_P_VALUE,
                       key->pair ? (uint32_t)number : (uint32_t)(number >> 32));
    hf__session_number(request, SQL_P_LIMIT, key->pair ? (uint32_t)key->second : (uint32_t)number);
    hf__session_number(request, SQL_P_VERB, key->pair ? 2 : 1);
}

static bool make_key(struct sessions *all, struct hf_oneshot *oneshot, struct session_key *key)
{
    if (hf__session_key_make(key, &all->settings, oneshot->name, oneshot->name_length,
                             &oneshot->error))
        return true;
    hf__session_oneshot_ends(all, oneshot, HF_EINVAL);
    return false;
}

void hf__session_show(struct sessions *all, struct hf_oneshot *oneshot)
{
    struct session_key key;
    struct session_request *request;
    bool mysql = all->dialect == SQL_MYSQL;
    memset(&key, 0, sizeof key);
    if (oneshot->name && !make_key(all, oneshot, &key))
        return;
    if (oneshot->name && mysql) {
        look_for_holder(all, oneshot, &key, show_with_holder);
        return;
    }
    request = request_about(all, oneshot, mysql ? own_shown : shown_answered);
    if (!request)
        return;
    set_halves(request, &key);
    if (!oneshot->name)
        hf__session_number(request, SQL_P_VERB, 0);
    hf__session_run(request, mysql ? SESSION_BEAT : SESSION_SHOW);
}

/* ---- breaking ---- */

static void ask_to_break(struct sessions *all, struct hf_oneshot *oneshot,
                         const struct session_key *key, unsigned tries);

static bool is_own(const struct sessions *all, int64_t id)
{
    for (unsigned i = 0; i < all->seat_count; i++)
        if (all->seats[i].session && all->seats[i].session->id == id)
            return true;
    return false;
}

/* Unlocks what this client holds of a key on one of its sessions; how many. */
static unsigned take_away(struct sessions *all, const struct session_key *key, int64_t id)
{
    unsigned count = 0;
    for (unsigned i = 0; i < all->seat_count; i++)
        HF_LIST_FOREACH (link, following, &all->seats[i].claims) {
            struct session_claim *claim = HF_CONTAINER(link, struct session_claim, link);
            if (claim->state != SESSION_CLAIM_HELD || claim->session->id != id ||
                !hf__session_key_is(&claim->key, key))
                continue;
            count++;
            hf__op_lost(claim->op, "it was broken");
            hf__session_end_now(claim);
        }
    return count;
}

/* The first column is the session, then how many locks it has, which, whether it is the one that is
 * meant, and whether it was ended. What this client has on its first session is unlocked. */
static void show_broken(struct session_request *request, const struct sql_answer *answer)
{
    struct sessions *all = request->seat->all;
    struct hf_oneshot *oneshot = request->oneshot;
    unsigned ended = 0, own = 0;
    if (answer->failure) {
        hf__session_oneshot_failed(request, answer);
        return;
    }
    oneshot->contacted = true;
    for (unsigned row = 0; row < answer->row_count; row++) {
        ended += hf__session_field(answer, row, 4) == 1;
        if (request->tries == 0 && hf__session_field(answer, row, 3) == 1 &&
            hf__session_field(answer, row, 0) == request->session->id)
            own += take_away(all, &request->key, request->session->id);
    }
    if (request->tries == 0)
        oneshot->result = ended + own;
    if (ended > 0 && request->tries < LOOKS) {
        ask_to_break(all, oneshot, &request->key, request->tries + 1);
        return;
    }
    bool refused = request->tries == 0 && answer->row_count > 0 && ended + own == 0;
    const struct sql_value *told = hf__answer_field(answer, 0, 2);
    if (refused && !oneshot->key)
        hf__explain(&oneshot->error, HF_EINVAL, 0,
                    "session %lld holds other locks, too, which would end with it: %.*s; break it "
                    "with its key, as `holdfast show` tells it",
                    (long long)hf__session_field(answer, 0, 0),
                    told && told->bytes ? (int)told->length : 0,
                    told && told->bytes ? told->bytes : "");
    hf__session_oneshot_ends(all, oneshot, !refused ? HF_OK : oneshot->key ? HF_BUSY : HF_EINVAL);
}

static void ask_to_break(struct sessions *all, struct hf_oneshot *oneshot,
                         const struct session_key *key, unsigned tries)
{
    struct session_request *request = request_about(all, oneshot, show_broken);
    if (!request)
        return;
    set_halves(request, key);
    request->tries = tries;
    request->values[SQL_P_INFO_TEXT] =
        (struct sql_value){ .type = SQL_TEXT,
                            .bytes = oneshot->key,
                            .length = oneshot->key ? (uint32_t)strlen(oneshot->key) : 0 };
    hf__session_run(request, SESSION_BREAK);
}

/* ---- breaking at MySQL, where KILL is a statement of its own ---- */

static void look_until_gone(struct session_request *request, struct holder *holder)
{
    struct sessions *all = request->seat->all;
    if (holder->id != holder->ended_id || ++holder->looks > LOOKS)
        hf__session_oneshot_ends(all, request->oneshot, HF_OK);
    else
        ask_for_locks(all, request->oneshot, &request->key, SESSION_LOCKS);
}

static void killed(struct session_request *request, const struct sql_answer *answer)
{
    struct hf_oneshot *oneshot = request->oneshot;
    struct holder *holder = oneshot->engine_pointer;
    oneshot->contacted = true;
    if (answer->failure) {
        hf__session_oneshot_failed(request, answer);
        return;
    }
    oneshot->result = 1;
    holder->ended_id = holder->id;
    holder->then = look_until_gone;
    ask_for_locks(request->seat->all, oneshot, &request->key, SESSION_LOCKS);
}

static void refuse_to_kill(struct session_request *request, const struct holder *holder)
{
    struct hf_oneshot *oneshot = request->oneshot;
    long long id = holder->id;
    bool known = holder->locks > 0;
    if (known)
        hf__explain(&oneshot->error, HF_EINVAL, 0,
                    "session %lld holds other locks, too, which would end with it: %s; break it "
                    "with its key, as `holdfast show` tells it",
                    id, holder->told);
    else
        hf__explain(&oneshot->error, HF_ENOTSUP, 0,
                    "what else session %lld has locked is not shown to this user (metadata_locks, "
                    "or MariaDB's plugin metadata_lock_info); KILL %lld ends it with all its locks",
                    id, id);
    hf__session_oneshot_ends(request->seat->all, oneshot, known ? HF_EINVAL : HF_ENOTSUP);
}

static void break_holder(struct session_request *request, struct holder *holder)
{
    struct sessions *all = request->seat->all;
    struct hf_oneshot *oneshot = request->oneshot;
    if (holder->id == 0) {
        hf__session_oneshot_ends(all, oneshot, HF_OK);
    } else if (holder->locks > 0 && oneshot->key && strcmp(oneshot->key, holder->key) != 0) {
        hf__session_oneshot_ends(all, oneshot, HF_BUSY);
    } else if (is_own(all, holder->id)) {
        oneshot->result = take_away(all, &request->key, holder->id);
        hf__session_oneshot_ends(all, oneshot, HF_OK);
        /* mutant: other-locks-of-the-session */
    } else if (holder->locks == 0 || (holder->locks > 1 && !oneshot->key)) {
        refuse_to_kill(request, holder);
    } else {
        struct session_request *kill = request_about(all, oneshot, killed);
        if (!kill)
            return;
        hf__session_request_key(kill, &request->key);
        hf__session_number(kill, SQL_P_VALUE, holder->id);
        hf__session_run(kill, SESSION_END);
    }
}

void hf__session_break(struct sessions *all, struct hf_oneshot *oneshot)
{
    struct session_key key;
    if (!make_key(all, oneshot, &key))
        return;
    if (all->dialect == SQL_POSTGRES) {
        ask_to_break(all, oneshot, &key, 0);
        return;
    }
    look_for_holder(all, oneshot, &key, break_holder);
}
