/* SPDX-License-Identifier: Apache-2.0 */
/* TLS in a build that has none: opening it says so, and nothing else is ever called. */
#include "net/tls.h"

#include "base/error.h"

int hf__tls_open(struct hf_tls **ret, const struct hf_tls_settings *settings, hf_error *error)
{
    (void)settings;
    *ret = NULL;
    return hf__error_set(error, HF_ENOTSUP, 0,
                         "this build of holdfast has no TLS; build it where OpenSSL is installed");
}

bool hf__tls_offer(struct hf_tls *tls, const char *protocol)
{
    (void)tls;
    (void)protocol;
    return false;
}

void hf__tls_close(struct hf_tls *tls)
{
    (void)tls;
}

struct hf_tls_session *hf__tls_session_new(struct hf_tls *tls, const char *host)
{
    (void)tls;
    (void)host;
    return NULL;
}

void hf__tls_session_free(struct hf_tls_session *session)
{
    (void)session;
}

enum hf_tls_state hf__tls_session_state(const struct hf_tls_session *session)
{
    (void)session;
    return HF_TLS_FAILED;
}

void hf__tls_feed(struct hf_tls_session *session, const char *bytes, size_t length)
{
    (void)session;
    (void)bytes;
    (void)length;
}

size_t hf__tls_read(struct hf_tls_session *session, char *room, size_t size)
{
    (void)session;
    (void)room;
    (void)size;
    return 0;
}

bool hf__tls_write(struct hf_tls_session *session, const char *bytes, size_t length)
{
    (void)session;
    (void)bytes;
    (void)length;
    return false;
}

size_t hf__tls_take(struct hf_tls_session *session, char *room, size_t size)
{
    (void)session;
    (void)room;
    (void)size;
    return 0;
}

const char *hf__tls_session_why(const struct hf_tls_session *session, int *code)
{
    (void)session;
    *code = HF_ENOTSUP;
    return "this build has no TLS";
}
