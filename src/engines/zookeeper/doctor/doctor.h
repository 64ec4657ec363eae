/* SPDX-License-Identifier: Apache-2.0 */
/* What `holdfast doctor` asks for: an interview with each server of the URL, a few questions in our
 * own session, and what the answers mean for locks. */
#ifndef HF_ENGINES_ZOOKEEPER_DOCTOR_DOCTOR_H
#define HF_ENGINES_ZOOKEEPER_DOCTOR_DOCTOR_H

#include "engines/zookeeper/zookeeper.h"

#define ZK_WORD_SIZE 128

/* ---- probe.c: one server, on connections of their own, one after the other ---- */

/* How far it got: each question needs that the one before was answered somehow. */
enum zk_presence {
    ZK_UNHEARD, /* it cannot be connected to */
    ZK_SILENT,  /* it does not answer in time */
    ZK_SHUTS,   /* it closes connections without a word */
    ZK_THERE
};

/* What a server is asked, one after the other. */
enum zk_topic {
    ZK_TOPIC_STATE,
    ZK_TOPIC_SETTINGS,
    ZK_TOPIC_CONNECTIONS,
    ZK_TOPIC_GREETING,
    ZK_TOPIC_LARGE_GREETING,
    ZK_TOPIC_GREETING_AGAIN,
    ZK_TOPICS
};

struct zk_probe {
    /* What it said. Texts are "" and numbers -1 where it did not, or may not, say. */
    enum zk_presence presence;
    char address[ZK_WORD_SIZE];
    char why[ZK_WORD_SIZE]; /* it did not answer the topic, and was not asked what follows; or "" */
    unsigned topic;
    char version[ZK_WORD_SIZE], mode[ZK_WORD_SIZE]; /* of "srvr" */
    long connections;
    bool serves_nobody;                           /* it answered "srvr" with that */
    long tick_ms, least_ms, most_ms, per_address; /* of "conf" */
    long busiest;                                 /* of "cons": of one address */
    bool lets_in;                                 /* a greeting is answered */
    bool takes_large;                             /* also one of the default jute.maxbuffer */

    /* probe.c's own */
    struct zookeeper *zk;
    struct hf_stream_place place;
    struct hf_stream *stream;
    struct hf_timer limit;
    int64_t over_ms; /* when it ends, however far it got */
    char *heard;
    size_t length;
    bool connected;
    void (*done)(struct zk_probe *interview);
};

void hf__zk_probe_begin(struct zk_probe *interview, struct zookeeper *zk, unsigned place,
                        void (*done)(struct zk_probe *interview));
/* Nothing of it goes on. */
void hf__zk_probe_end(struct zk_probe *interview);
/* In the child after fork(): the connection is the parent's. */
void hf__zk_probe_forked(struct zk_probe *interview);

/* ---- survey.c ---- */

struct zk_examiner {
    struct hf_link link; /* in zk->examiners */
    struct hf_oneshot *examination;
    unsigned out; /* interviews and questions */
    struct zk_probe interviews[HF_URL_HOSTS_MAX];
    unsigned count;
    int code; /* what the session's questions came to: an hf_code, with `error` */
    hf_error *error;
    int32_t asked_ms, settled_ms;   /* the session's length */
    unsigned voters, observers;     /* of the ensemble; 0: one server of its own */
    bool config_known;              /* the two above are */
    int create_error, delete_error; /* of a node of our own below the root */
    int64_t began_ms, created_ms;   /* our clock before it was asked for, and the leader's */
    int64_t ended_ms;               /* our clock when it was answered */
    bool open_to_all;               /* any client may make or delete nodes below the root */
};

void hf__zk_diagnose(struct zookeeper *zk, struct hf_oneshot *examination);
void hf__zk_examiners_close(struct zookeeper *zk);
void hf__zk_examiners_forked(struct zookeeper *zk);

/* ---- findings.c ---- */

/* Says all that is so, and all that is wrong. */
void hf__zk_report_findings(const struct zk_examiner *examiner, const struct zookeeper *zk);

#endif
