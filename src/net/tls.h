/* SPDX-License-Identifier: Apache-2.0 */
/* TLS as a codec: what is said becomes bytes for the wire, bytes from the wire become what was
 * heard. There is no socket in it. The other side's certificate is verified, its name included,
 * unless the settings say expressly that any server may answer. */
#ifndef HF_NET_TLS_H
#define HF_NET_TLS_H

#include <holdfast.h>

struct hf_tls;
struct hf_tls_session;
struct hf_url;

struct hf_tls_settings {
    const char *authorities; /* a PEM file; NULL: the authorities that this machine trusts */
    const char *certificate; /* ours, with its chain; a PEM file, or NULL */
    const char *key;         /* ours; NULL: it is in the certificate's file */
    bool any_server;         /* nothing is verified */
};

/* What all connections of a client trust, and show of themselves. HF_OK, or a code with *error
 * filled: a file cannot be used, or this build has no TLS. */
int hf__tls_open(struct hf_tls **ret, const struct hf_tls_settings *settings, hf_error *error);
/* The same, by the options of a URL. */
int hf__tls_open_by_url(struct hf_tls **ret, struct hf_url *url, hf_error *error);
/* Says in each handshake that it is this protocol, with a length in front ("\2h2"). False: out of
 * memory. */
bool hf__tls_offer(struct hf_tls *tls, const char *protocol);
void hf__tls_close(struct hf_tls *tls);

enum hf_tls_state {
    HF_TLS_SHAKING, /* the two sides are still getting to know each other */
    HF_TLS_OPEN,
    HF_TLS_ENDED, /* the other side has said that it is over */
    HF_TLS_FAILED /* see hf__tls_session_why */
};

/* One connection to `host`, a name or an address, which begins to shake hands. NULL: no memory. */
struct hf_tls_session *hf__tls_session_new(struct hf_tls *tls, const char *host);
void hf__tls_session_free(struct hf_tls_session *session);
enum hf_tls_state hf__tls_session_state(const struct hf_tls_session *session);

/* Bytes from the wire. What they mean is read after each. */
void hf__tls_feed(struct hf_tls_session *session, const char *bytes, size_t length);
/* What the other side said: how many bytes, 0 if there are none. */
size_t hf__tls_read(struct hf_tls_session *session, char *room, size_t size);
/* To be said to the other side, once the state is HF_TLS_OPEN. False: it has failed. */
bool hf__tls_write(struct hf_tls_session *session, const char *bytes, size_t length);
/* Bytes for the wire: how many, 0 if there are none. */
size_t hf__tls_take(struct hf_tls_session *session, char *room, size_t size);

/* A few words on the failure, and its code: HF_DENIED where one side does not trust the other,
 * else HF_UNREACHABLE. */
const char *hf__tls_session_why(const struct hf_tls_session *session, int *code);

#endif
