/* SPDX-License-Identifier: Apache-2.0 */
/* What ZooKeeper is asked about itself: each server in an interview of its own, and in our session
 * how long that is, which servers vote, and what this user may do below the root. Nothing is left
 * behind. */
#include "doctor.h"

#include "base/testing.h"
#include "engines/common/findings.h"

#include <stdlib.h>
#include <string.h>

#define CONFIG_PATH "/zookeeper/config"
#define RIGHTS_TO_MAKE_AND_DELETE (4 | 8)

static void examiner_free(struct zk_examiner *examiner)
{
    for (unsigned i = 0; i < examiner->count; i++)
        hf__zk_probe_end(&examiner->interviews[i]);
    hf__link_remove(&examiner->link);
    free(examiner->error);
    free(examiner);
}

void hf__zk_examiners_close(struct zookeeper *zk)
{
    struct hf_link *link;
    while ((link = hf__list_first(&zk->examiners)))
        examiner_free(HF_CONTAINER(link, struct zk_examiner, link));
}

void hf__zk_examiners_forked(struct zookeeper *zk)
{
    HF_LIST_FOREACH (link, following, &zk->examiners) {
        struct zk_examiner *examiner = HF_CONTAINER(link, struct zk_examiner, link);
        for (unsigned i = 0; i < examiner->count; i++)
            hf__zk_probe_forked(&examiner->interviews[i]);
    }
}

static bool anybody_spoke(const struct zk_examiner *examiner)
{
    for (unsigned i = 0; i < examiner->count; i++)
        if (examiner->interviews[i].presence >= ZK_SHUTS)
            return true;
    return false;
}

/* Without a session there still is something to say, if a server says why. */
static void one_less(struct zookeeper *zk, struct zk_examiner *examiner)
{
    if (--examiner->out > 0)
        return;
    struct hf_oneshot *examination = examiner->examination;
    examination->contacted = examiner->code == HF_OK || anybody_spoke(examiner);
    if (examiner->code == HF_OK || (examiner->code == HF_UNREACHABLE && anybody_spoke(examiner))) {
        hf__zk_report_findings(examiner, zk);
    } else {
        examination->code = examiner->code;
        examination->error = examiner->error;
        examiner->error = NULL;
    }
    examiner_free(examiner);
    hf__oneshot_done(&zk->base, examination);
}

static void interviewed(struct zk_probe *interview)
{
    struct zookeeper *zk = interview->zk;
    HF_LIST_FOREACH (link, following, &zk->examiners) {
        struct zk_examiner *examiner = HF_CONTAINER(link, struct zk_examiner, link);
        if (interview >= examiner->interviews &&
            interview < examiner->interviews + HF_URL_HOSTS_MAX) {
            one_less(zk, examiner);
            return;
        }
    }
}

/* ---- in the session ---- */

/* Whether it was answered at all; an answer may be an error. */
static bool note_silence(struct zookeeper *zk, struct zk_examiner *examiner,
                         const struct zk_request *request, const struct zk_reply *reply)
{
    if (!reply && examiner->code == HF_OK)
        examiner->code = hf__zk_explain(zk, request, reply, &examiner->error);
    if (reply)
        examiner->settled_ms = request->session->timeout_ms;
    return reply != NULL;
}

/* Lines such as "server.1=host:2888:3888:participant;0.0.0.0:2181"; one server of its own has none.
 */
static void read_config(struct zk_examiner *examiner, const char *text, size_t length)
{
    const char *end = text + length;
    examiner->config_known = true;
    while (text < end) {
        const char *line = text, *line_end = memchr(text, '\n', (size_t)(end - text));
        size_t line_length = (size_t)((line_end ? line_end : end) - line);
        text = line_end ? line_end + 1 : end;
        if (line_length < 7 || memcmp(line, "server.", 7) != 0)
            continue;
        if (memmem(line, line_length, ":observer", 9)) /* mutant: doctor-counts-those-owner */
            examiner->observers++;
        else
            examiner->voters++;
    }
}

static void config_answered(struct zookeeper *zk, struct zk_request *request,
                            struct zk_reply *reply)
{
    struct zk_examiner *examiner = request->arg;
    size_t length;
    if (note_silence(zk, examiner, request, reply) && reply->error == ZK_OK) {
        const char *text = hf__zk_read_bytes(&reply->body, &length);
        if (!reply->body.bad)
            read_config(examiner, text, length);
    }
    one_less(zk, examiner);
}

static void acl_answered(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct zk_examiner *examiner = request->arg;
    if (note_silence(zk, examiner, request, reply) && reply->error == ZK_OK) {
        uint32_t count = hf__zk_read_count(&reply->body);
        for (uint32_t i = 0; i < count && !reply->body.bad; i++) {
            size_t scheme_length, id_length;
            int32_t rights = hf__zk_read_int(&reply->body);
            const char *scheme = hf__zk_read_bytes(&reply->body, &scheme_length);
            hf__zk_read_bytes(&reply->body, &id_length);
            if (scheme_length == 5 && memcmp(scheme, "world", 5) == 0)
                examiner->open_to_all |= (rights & RIGHTS_TO_MAKE_AND_DELETE) != 0;
        }
    }
    one_less(zk, examiner);
}

static void create_answered(struct zookeeper *zk, struct zk_request *request,
                            struct zk_reply *reply)
{
    struct zk_examiner *examiner = request->arg;
    struct zk_stat stat;
    size_t length;
    examiner->ended_ms = hf__finding_wall_ms();
    if (note_silence(zk, examiner, request, reply)) {
        examiner->create_error = reply->error;
        hf__zk_read_bytes(&reply->body, &length);
        hf__zk_read_stat(&reply->body, &stat);
        if (reply->error == ZK_OK && !reply->body.bad)
            examiner->created_ms = stat.ctime_ms;
    }
    one_less(zk, examiner);
}

static void delete_answered(struct zookeeper *zk, struct zk_request *request,
                            struct zk_reply *reply)
{
    struct zk_examiner *examiner = request->arg;
    if (note_silence(zk, examiner, request, reply))
        examiner->delete_error = reply->error;
    one_less(zk, examiner);
}

static struct zk_request *question(struct zookeeper *zk, struct zk_examiner *examiner,
                                   int32_t operation, zk_answered *answered)
{
    struct zk_request *request = hf__zk_session_request(zk, operation, answered, examiner);
    if (!request) {
        examiner->code = HF_ENOMEM;
        return NULL;
    }
    examiner->out++;
    return request;
}

/* The node's name is no contender's and no lock's; if its end is not asked for any more, it ends
 * with the session. */
static void ask_for_rights(struct zookeeper *zk, struct zk_examiner *examiner)
{
    const char *root = zk->settings->root;
    char uuid[ZK_UUID_SIZE], child[ZK_NODE_SIZE] = "_c_";
    struct zk_request *create = question(zk, examiner, ZK_CREATE2, create_answered);
    struct zk_request *gone = create ? question(zk, examiner, ZK_DELETE, delete_answered) : NULL;
    hf__zk_uuid(uuid);
    memcpy(child + 3, uuid, ZK_UUID_SIZE - 1);
    memcpy(child + 3 + ZK_UUID_SIZE - 1, "-doctor", sizeof "-doctor");
    examiner->began_ms = hf__finding_wall_ms();
    if (create) {
        hf__zk_write_child(&create->body, root, child);
        hf__zk_write_create(&create->body, "", 0, ZK_EPHEMERAL, zk->settings->servers.user != NULL);
        hf__zk_ask(zk, create);
    }
    if (gone) {
        hf__zk_write_child(&gone->body, root, child);
        hf__zk_write_int(&gone->body, -1);
        hf__zk_ask(zk, gone);
    }
}

static void ask_in_session(struct zookeeper *zk, struct zk_examiner *examiner)
{
    const char *root = *zk->settings->root ? zk->settings->root : "/";
    struct zk_request *config = question(zk, examiner, ZK_GET_DATA, config_answered);
    if (config) {
        hf__zk_write_text(&config->body, CONFIG_PATH);
        hf__zk_write_bool(&config->body, false);
        hf__zk_ask(zk, config);
    }
    struct zk_request *acl = question(zk, examiner, ZK_GET_ACL, acl_answered);
    if (acl) {
        hf__zk_write_text(&acl->body, root);
        hf__zk_ask(zk, acl);
    }
    ask_for_rights(zk, examiner);
}

void hf__zk_diagnose(struct zookeeper *zk, struct hf_oneshot *examination)
{
    struct zk_examiner *examiner = hf__calloc(1, sizeof *examiner);
    if (!examiner) {
        examination->code = HF_ENOMEM;
        hf__oneshot_done(&zk->base, examination);
        return;
    }
    examiner->examination = examination;
    examiner->asked_ms = hf__zk_session_asks_ms(zk);
    hf__list_append(&zk->examiners, &examiner->link);
    examiner->out = 1;
    ask_in_session(zk, examiner);
    for (unsigned i = 0; i < zk->settings->servers.count; i++) {
        examiner->out++;
        examiner->count++;
        hf__zk_probe_begin(&examiner->interviews[i], zk, i, interviewed);
    }
    one_less(zk, examiner);
}
