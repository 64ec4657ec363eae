/* SPDX-License-Identifier: Apache-2.0 */
/* Claims: what one has at the servers, which is a key in a queue, and the end of a lease of its
 * own. The keys are those of Go's concurrency.Mutex (name/LEASE, with a number behind it where
 * another claim of this client has that key already) and of its recipes' RWMutex (name/read/NUMBER,
 * name/write/NUMBER); kinds.h has those of semaphores, counters and latches. */
#include "engines/common/findings.h"
#include "engines/etcd/kinds/kinds.h"

#include "base/rand.h"
#include "base/wait_graph.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define READERS "read/"
#define WRITERS "write/"
/* What follows "name/" in a key, at most. */
#define SUFFIX_MAX 48u
/* "write", which is what stands in a reader's way. */
#define BLOCKING_MORE 8u

/* As many are kept for the next ones: once warm, a lock allocates nothing. */
#define SPARE_CLAIMS_MAX 256u
/* All of it but what the next one uses. */
#define END_OF_CLAIM(claim) &(claim)->wait, sizeof *(claim)-offsetof(struct etcd_claim, wait)

void hf__etcd_claim_stop_resting(struct etcd_claim *claim)
{
    if (claim->rests)
        claim->session->holds--;
    claim->rests = false;
}

void hf__etcd_claim_lost(struct etcd_claim *claim, const char *why)
{
    hf__etcd_claim_stop_resting(claim);
    hf__op_lost(claim->op, why);
}

/* ---- memory ---- */

static bool make_keys(struct etcd *etcd, struct etcd_claim *claim)
{
    const struct hf_op *op = claim->op;
    size_t root = strlen(etcd->settings.root), prefix = root + op->in.name_length + 1;
    size_t blocking = prefix + BLOCKING_MORE;
    size_t room = prefix + SUFFIX_MAX + 2 * blocking;
    if (room > claim->key_room) {
        free(claim->key);
        claim->key = hf__calloc(1, room);
        claim->key_room = claim->key ? room : 0;
    }
    if (!claim->key)
        return false;
    memcpy(claim->key, etcd->settings.root, root);
    memcpy(claim->key + root, op->in.name, op->in.name_length);
    claim->key[prefix - 1] = '/';
    claim->prefix_length = prefix;
    claim->blocking = claim->key + prefix + SUFFIX_MAX;
    claim->blocking_end = claim->blocking + blocking;
    memcpy(claim->blocking, claim->key, prefix);
    claim->blocking_length = prefix;
    if (op->in.mode == HF_READ)
        claim->blocking_length +=
            (size_t)snprintf(claim->blocking + prefix, BLOCKING_MORE, "write");
    claim->blocking_end_length =
        hf__etcd_prefix_end(claim->blocking, claim->blocking_length, claim->blocking_end);
    return true;
}

/* One that is over, with the memory of its keys, or a new one. */
struct etcd_claim *hf__etcd_claim_new(struct etcd *etcd, struct hf_op *op,
                                      void (*lease_is_over)(struct hf_own_end *end))
{
    struct hf_link *link = hf__list_pop(&etcd->spare_claims);
    struct etcd_claim *claim = link ? HF_CONTAINER(link, struct etcd_claim, link)
                                    : hf__calloc(1, sizeof(struct etcd_claim));
    if (!claim)
        return NULL;
    if (link) {
        etcd->spare_claim_count--;
        hf__take_again(END_OF_CLAIM(claim));
        *claim = (struct etcd_claim){ .key = claim->key, .key_room = claim->key_room };
    }
    claim->op = op;
    bool made = make_keys(etcd, claim);
    if (made && op->in.mode >= HF_PERMIT) {
        claim->layout = hf__calloc(1, sizeof *claim->layout);
        made = claim->layout &&
               hf__etcd_layout_new(claim->layout, etcd, op->in.name, op->in.name_length,
                                   hf__etcd_kind_word(op->in.mode));
    }
    if (!made) {
        free(claim->layout);
        free(claim->key);
        free(claim);
        return NULL;
    }
    hf__list_append(&etcd->claims, &claim->link);
    hf__link_init(&claim->wait.link);
    hf__link_init(&claim->watch_link);
    hf__link_init(&claim->held_link);
    hf__link_init(&claim->key_link);
    hf__own_end_init(&claim->end, &etcd->base, lease_is_over);
    claim->uses = 1;
    op->engine.pointer = claim;
    return claim;
}

void hf__etcd_claim_drop(struct etcd_claim *claim)
{
    struct etcd *etcd = HF_CONTAINER(claim->end.lease.engine, struct etcd, base);
    if (--claim->uses > 0) /* mutant: etcd-claim-lives-as-long-as-its-requests */
        return;
    hf__link_remove(&claim->link);
    hf__etcd_claim_forget_key(claim);
    hf__etcd_session_drop(claim->session);
    hf__etcd_session_drop(claim->earlier);
    if (claim->layout)
        hf__etcd_layout_free(claim->layout);
    free(claim->layout);
    free(claim->blocker);
    if (etcd->spare_claim_count == SPARE_CLAIMS_MAX) {
        free(claim->key);
        free(claim);
        return;
    }
    etcd->spare_claim_count++;
    hf__list_append(&etcd->spare_claims, &claim->link);
    hf__set_aside(END_OF_CLAIM(claim));
}

static void request_over(void *arg)
{
    hf__etcd_claim_drop(arg);
}

struct etcd_request *hf__etcd_claim_request(struct etcd *etcd, struct etcd_claim *claim,
                                            const struct etcd_method *method,
                                            etcd_answered *answered)
{
    struct etcd_request *request = hf__etcd_request(etcd, method, answered);
    if (request) {
        request->drop = request_over;
        request->claim = claim;
        claim->uses++;
    }
    return request;
}

void hf__etcd_claims_free(struct etcd *etcd)
{
    struct hf_link *link;
    while ((link = hf__list_pop(&etcd->spare_claims))) {
        struct etcd_claim *claim = HF_CONTAINER(link, struct etcd_claim, link);
        free(claim->key);
        free(claim);
    }
}

/* ---- its key ---- */

static struct hf_link *claim_bucket_of(struct etcd *etcd, struct etcd_bytes key)
{
    return &etcd->keys[hf__hash(key.bytes, key.length) % ETCD_KEY_BUCKETS];
}

static struct etcd_claim *find_in(struct hf_link *bucket, struct etcd_bytes key)
{
    HF_LIST_FOREACH (link, following, bucket) {
        struct etcd_claim *claim = HF_CONTAINER(link, struct etcd_claim, key_link);
        if (claim->key_length == key.length && memcmp(claim->key, key.bytes, key.length) == 0)
            return claim;
    }
    return NULL;
}

struct etcd_claim *hf__etcd_claim_find(struct etcd *etcd, struct etcd_bytes key)
{
    return find_in(claim_bucket_of(etcd, key), key);
}

/* Chosen at random: other clients choose theirs from the same ones. */
static int write_number(char *room, const char *kind)
{
    uint64_t number;
    hf__random(&number, sizeof number);
    return snprintf(room, SUFFIX_MAX, "%s%" PRIu64, kind, number >> 1);
}

static int write_weight(char *room, const char *word, uint32_t permits)
{
    char kind[16];
    snprintf(kind, sizeof kind, "%s/", word);
    int length = write_number(room, kind);
    return length + snprintf(room + length, SUFFIX_MAX - (size_t)length, ".%" PRIu32, permits);
}

/* Returns the bucket of its key. */
static struct hf_link *write_suffix(struct etcd *etcd, struct etcd_claim *claim)
{
    hf_mode mode = claim->op->in.mode;
    char *room = claim->key + claim->prefix_length;
    bool numbered = claim->layout || mode == HF_READ || mode == HF_WRITE;
    int length;
    if (claim->layout)
        length = write_weight(room, hf__etcd_kind_word(mode), claim->op->in.permits);
    else if (numbered)
        length = write_number(room, mode == HF_READ ? READERS : WRITERS);
    else
        length = snprintf(room, SUFFIX_MAX, "%" PRIx64, (uint64_t)claim->session->id);
    claim->key_length = claim->prefix_length + (size_t)length;
    claim->has_two = mode == HF_WRITE;
    struct hf_link *bucket = claim_bucket_of(etcd, hf__etcd_key_of(claim));
    if (numbered || !find_in(bucket, hf__etcd_key_of(claim)))
        return bucket;
    length += snprintf(room + length, SUFFIX_MAX - (size_t)length, ".%" PRIx64, ++etcd->named);
    claim->key_length = claim->prefix_length + (size_t)length;
    return claim_bucket_of(etcd, hf__etcd_key_of(claim));
}

bool hf__etcd_claim_name_key(struct etcd *etcd, struct etcd_claim *claim)
{
    struct etcd_session *session = hf__etcd_session_current(etcd);
    if (!session)
        return false;
    if (!claim->session) {
        claim->session = hf__etcd_session_use(session);
    } else if (claim->session != session) {
        /* One that goes on has nothing of the claim, or a watch deletes it there. */
        bool goes_on = claim->session->state < ETCD_SESSION_ENDING;
        hf__etcd_session_drop(goes_on ? claim->session : claim->earlier);
        if (!goes_on)
            claim->earlier = claim->session;
        claim->session = hf__etcd_session_use(session);
    }
    claim->session->keys++;
    hf__list_append(write_suffix(etcd, claim), &claim->key_link);
    return true;
}

void hf__etcd_claim_forget_key(struct etcd_claim *claim)
{
    struct etcd *etcd = HF_CONTAINER(claim->end.lease.engine, struct etcd, base);
    hf__link_remove(&claim->key_link);
    hf__etcd_claim_stop_resting(claim);
    if (claim->key_length > 0)
        hf__etcd_session_left(etcd, claim->session);
    claim->key_length = 0;
    claim->created = claim->changed = 0;
    hf__known_forget(&claim->known);
    claim->over = claim->orphaned = false;
}

bool hf__etcd_claim_is_same_kind(const struct etcd_claim *claim, const ProtobufCBinaryData *key)
{
    const char *suffix = (const char *)key->data + claim->prefix_length;
    size_t length = key->len > claim->prefix_length ? key->len - claim->prefix_length : 0;
    bool rw = (length >= sizeof READERS - 1 && memcmp(suffix, READERS, sizeof READERS - 1) == 0) ||
              (length >= sizeof WRITERS - 1 && memcmp(suffix, WRITERS, sizeof WRITERS - 1) == 0);
    if (hf__etcd_kind_of_suffix(suffix, length))
        return false;
    return rw == (claim->op->in.mode == HF_READ || claim->op->in.mode == HF_WRITE);
}

bool hf__etcd_claim_is_writer(const struct etcd_claim *claim)
{
    size_t length = sizeof WRITERS - 1;
    return claim->key_length > claim->prefix_length + length &&
           memcmp(claim->key + claim->prefix_length, WRITERS, length) == 0;
}

/* The claim's key with the same number, and another word before it. */
static size_t key_of_kind(const struct etcd_claim *claim, size_t word_length, const char *kind,
                          char room[ETCD_KEY_SIZE])
{
    size_t number = claim->prefix_length + word_length, length = claim->prefix_length;
    memcpy(room, claim->key, length);
    memcpy(room + length, kind, strlen(kind));
    length += strlen(kind);
    memcpy(room + length, claim->key + number, claim->key_length - number);
    return length + claim->key_length - number;
}

size_t hf__etcd_claim_reader_key(const struct etcd_claim *claim, char room[ETCD_KEY_SIZE])
{
    return key_of_kind(claim, sizeof WRITERS - 1, READERS, room);
}

size_t hf__etcd_claim_other_key(const struct etcd_claim *claim, char room[ETCD_KEY_SIZE])
{
    if (!claim->has_two)
        return 0;
    if (hf__etcd_claim_is_writer(claim))
        return hf__etcd_claim_reader_key(claim, room);
    return key_of_kind(claim, sizeof READERS - 1, WRITERS, room);
}

void hf__etcd_claim_rename_to_reader(struct etcd *etcd, struct etcd_claim *claim)
{
    size_t number = claim->prefix_length + sizeof WRITERS - 1;
    size_t reader = claim->prefix_length + sizeof READERS - 1;
    hf__link_remove(&claim->key_link);
    memmove(claim->key + reader, claim->key + number, claim->key_length - number);
    memcpy(claim->key + claim->prefix_length, READERS, sizeof READERS - 1);
    claim->key_length -= number - reader;
    hf__list_append(claim_bucket_of(etcd, hf__etcd_key_of(claim)), &claim->key_link);
}

bool hf__etcd_claim_set_blocker(struct etcd_claim *claim, const ProtobufCBinaryData *key)
{
    if (key->len > claim->blocker_room) {
        char *grown = hf__realloc(claim->blocker, key->len);
        if (!grown)
            return false;
        claim->blocker = grown;
        claim->blocker_room = key->len;
    }
    memcpy(claim->blocker, key->data, key->len);
    claim->blocker_length = key->len;
    return true;
}

/* ---- what its key says of it ---- */

size_t hf__etcd_claim_note(const struct etcd *etcd, const struct etcd_claim *claim,
                           int64_t lease_ms, char text[ETCD_NOTE_SIZE])
{
    const struct hf_host *host = etcd->base.host;
    const struct hf_op *op = claim->op;
    const char *owner =
        op->in.owner_text && *op->in.owner_text ? op->in.owner_text : host->owner_text;
    if (op->in.election) /* mutant: etcd-candidate-says-more-than-its-text */
        return (size_t)snprintf(text, ETCD_NOTE_SIZE, "%.127s", owner);
    struct etcd_note note = {
        .mode = op->in.mode,
        .permits = op->in.permits ? op->in.permits : 1,
        .pid = getpid(),
        .since_ms = hf__finding_wall_ms(),
        .lease_ms = lease_ms,
    };
    hf__thread_key_of(note.thread, host->id, hf__owner_thread_number(op->in.owner));
    snprintf(note.host, sizeof note.host, "%.63s", host->host_name);
    snprintf(note.owner, sizeof note.owner, "%.127s", owner);
    return hf__etcd_note_write(&note, text);
}

/* ---- what other transactions compare ---- */

_Static_assert(HF_GUARD_SIZE > ETCD_KEY_SIZE + 24, "a guard has room for a key and a revision");

void hf__etcd_guard(struct etcd *etcd, struct hf_oneshot *oneshot)
{
    const struct etcd_claim *claim = oneshot->op->engine.pointer;
    bool held = claim && hf__etcd_holds(claim) && !claim->over && claim->created > 0;
    oneshot->code = held ? HF_OK : HF_LOST;
    if (held)
        snprintf(oneshot->guard, HF_GUARD_SIZE, "%.*s@%" PRId64, (int)claim->key_length, claim->key,
                 claim->created);
    hf__oneshot_done(&etcd->base, oneshot);
}
