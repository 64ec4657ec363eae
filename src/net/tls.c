/* SPDX-License-Identifier: Apache-2.0 */
/* TLS by OpenSSL, between two buffers in memory: `in` has what came from the wire, `out` what is to
 * go there. */
#include "net/tls.h"

#include "base/error.h"
#include "base/testing.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

struct hf_tls {
    SSL_CTX *context;
    bool any_server;
};

struct hf_tls_session {
    SSL *ssl;
    BIO *in, *out; /* the SSL's */
    enum hf_tls_state state;
    int code;
    char host[256];
    char why[280];
};

/* ---- what a client trusts and shows ---- */

/* The reason of OpenSSL's last error, in its own words or, as it may have none for it, the
 * system's; and forgets all errors of this thread. */
static const char *last_reason(void)
{
    unsigned long error = ERR_peek_error();
    const char *reason = ERR_GET_LIB(error) == ERR_LIB_SYS ? strerror(ERR_GET_REASON(error))
                                                           : ERR_reason_error_string(error);
    ERR_clear_error();
    return reason ? reason : "no reason given";
}

/* A library must not ask the terminal for a passphrase, which is OpenSSL's way otherwise. */
static int no_passphrase(char *buffer, int size, int writing, void *arg)
{
    (void)buffer;
    (void)size;
    (void)writing;
    (void)arg;
    return -1;
}

static int trust(SSL_CTX *context, const struct hf_tls_settings *settings, hf_error *error)
{
    /* mutant: owner-signed-certificate */
    SSL_CTX_set_verify(context, settings->any_server ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    if (!settings->authorities) {
        SSL_CTX_set_default_verify_paths(context);
        return HF_OK;
    }
    if (SSL_CTX_load_verify_locations(context, settings->authorities, NULL) == 1)
        return HF_OK;
    return hf__error_set(error, HF_EINVAL, 0,
                         "the certificate authorities in \"%.150s\" cannot be read (%s); it "
                         "must be a file in the PEM format",
                         settings->authorities, last_reason());
}

static int show(SSL_CTX *context, const struct hf_tls_settings *settings, hf_error *error)
{
    const char *key = settings->key ? settings->key : settings->certificate;
    if (!settings->certificate)
        return settings->key ? hf__error_set(error, HF_EINVAL, 0,
                                             "a key for TLS is of no use without its certificate")
                             : HF_OK;
    if (SSL_CTX_use_certificate_chain_file(context, settings->certificate) != 1)
        return hf__error_set(error, HF_EINVAL, 0,
                             "the certificate in \"%.150s\" cannot be read (%s); it must be a "
                             "file in the PEM format",
                             settings->certificate, last_reason());
    if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1)
        return hf__error_set(error, HF_EINVAL, 0,
                             "the key in \"%.150s\" cannot be used (%s); it must be a file in the "
                             "PEM format, without a passphrase, and belong to the certificate",
                             key, last_reason());
    return HF_OK;
}

int hf__tls_open(struct hf_tls **ret, const struct hf_tls_settings *settings, hf_error *error)
{
    struct hf_tls *tls = hf__calloc(1, sizeof *tls);
    *ret = NULL;
    if (tls)
        tls->context = SSL_CTX_new(TLS_client_method());
    if (!tls || !tls->context) {
        hf__tls_close(tls);
        return hf__error_set(error, HF_ENOMEM, 0, "out of memory for TLS");
    }
    tls->any_server = settings->any_server;
    SSL_CTX_set_min_proto_version(tls->context, TLS1_2_VERSION);
    SSL_CTX_set_options(tls->context, SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_default_passwd_cb(tls->context, no_passphrase);
    int code = trust(tls->context, settings, error);
    if (code == HF_OK)
        code = show(tls->context, settings, error);
    if (code != HF_OK) {
        hf__tls_close(tls);
        return code;
    }
    *ret = tls;
    return HF_OK;
}

bool hf__tls_offer(struct hf_tls *tls, const char *protocol)
{
    return SSL_CTX_set_alpn_protos(tls->context, (const unsigned char *)protocol,
                                   (unsigned)strlen(protocol)) == 0;
}

void hf__tls_close(struct hf_tls *tls)
{
    if (tls)
        SSL_CTX_free(tls->context);
    free(tls);
}

/* ---- what went wrong ---- */

static void fail_session(struct hf_tls_session *session, int code, const char *what,
                         const char *detail)
{
    session->state = HF_TLS_FAILED;
    session->code = code;
    snprintf(session->why, sizeof session->why, "%s%s", what, detail);
    ERR_clear_error();
}

static void distrust(struct hf_tls_session *session, long verdict)
{
    char what[sizeof session->why];
    const char *detail = "";
    switch (verdict) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
        snprintf(what, sizeof what,
                 "its certificate has expired; the server needs a new one "
                 "(or this machine's clock is wrong)");
        break;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        snprintf(what, sizeof what,
                 "its certificate is not valid yet; compare this machine's clock");
        break;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        snprintf(what, sizeof what,
                 "its certificate is for another host than \"%.100s\"; name the server as its "
                 "certificate does",
                 session->host);
        break;
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        snprintf(what, sizeof what,
                 "its certificate was signed by no trusted authority; name the authority's "
                 "certificate by ca=FILE");
        break;
    default:
        snprintf(what, sizeof what, "its certificate is refused: ");
        detail = X509_verify_cert_error_string(verdict);
    }
    fail_session(session, HF_DENIED, what, detail); /* mutant: owner-cannot-be-trusted */
}

/* Alerts by which the other side says that it does not trust us. */
static bool refuses_us(int reason)
{
    return reason == SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED ||
           reason == SSL_R_TLSV1_ALERT_UNKNOWN_CA || reason == SSL_R_SSLV3_ALERT_BAD_CERTIFICATE ||
           reason == SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED ||
           reason == SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED ||
           reason == SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN ||
           reason == SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE ||
           reason == SSL_R_TLSV1_ALERT_ACCESS_DENIED;
}

static void explain(struct hf_tls_session *session)
{
    long verdict = SSL_get_verify_result(session->ssl);
    int reason = ERR_GET_REASON(ERR_peek_error());
    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED && verdict != X509_V_OK)
        distrust(session, verdict);
    else if (refuses_us(reason))
        fail_session(session, HF_DENIED,
                     "it wants a certificate of ours that it trusts (cert=FILE and key=FILE): ",
                     last_reason());
    else if (reason == SSL_R_WRONG_VERSION_NUMBER)
        fail_session(session, HF_UNREACHABLE, "it does not speak TLS; is this the port without it?",
                     "");
    else if (reason == SSL_R_UNSUPPORTED_PROTOCOL || reason == SSL_R_TLSV1_ALERT_PROTOCOL_VERSION)
        fail_session(session, HF_UNREACHABLE,
                     "it speaks no TLS of version 1.2 or newer: ", last_reason());
    else
        fail_session(session, HF_UNREACHABLE, "TLS failed: ", last_reason());
}

/* After a call of OpenSSL's that did not succeed: is it over? */
static void look_at_result(struct hf_tls_session *session, int result)
{
    int error = SSL_get_error(session->ssl, result);
    if (error == SSL_ERROR_ZERO_RETURN)
        session->state = HF_TLS_ENDED;
    else if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE)
        explain(session);
}

/* ---- a connection ---- */

/* The name that the certificate must have, and that the server is told. */
static bool name_host(const struct hf_tls *tls, SSL *ssl, char *host)
{
    X509_VERIFY_PARAM *rules = SSL_get0_param(ssl);
    unsigned char bytes[sizeof(struct in6_addr)];
    bool address = inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
    if (!address && SSL_set_tlsext_host_name(ssl, host) != 1)
        return false;
    if (tls->any_server)
        return true;
    if (address)
        /* mutant: certificate-for-another */
        return X509_VERIFY_PARAM_set1_ip_asc(rules, host) == 1;
    X509_VERIFY_PARAM_set_hostflags(rules, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    /* mutant: certificate-for-another-host */
    return X509_VERIFY_PARAM_set1_host(rules, host, 0) == 1;
}

static void shake(struct hf_tls_session *session)
{
    ERR_clear_error();
    int result = SSL_do_handshake(session->ssl);
    if (result == 1)
        session->state = HF_TLS_OPEN;
    else
        look_at_result(session, result);
}

struct hf_tls_session *hf__tls_session_new(struct hf_tls *tls, const char *host)
{
    struct hf_tls_session *session = hf__calloc(1, sizeof *session);
    if (!session)
        return NULL;
    snprintf(session->host, sizeof session->host, "%s", host);
    session->ssl = SSL_new(tls->context);
    session->in = BIO_new(BIO_s_mem());
    session->out = BIO_new(BIO_s_mem());
    if (!session->ssl || !session->in || !session->out ||
        !name_host(tls, session->ssl, session->host)) {
        BIO_free(session->in);
        BIO_free(session->out);
        SSL_free(session->ssl);
        free(session);
        ERR_clear_error();
        return NULL;
    }
    SSL_set_bio(session->ssl, session->in, session->out);
    SSL_set_connect_state(session->ssl);
    shake(session);
    return session;
}

void hf__tls_session_free(struct hf_tls_session *session)
{
    if (session)
        SSL_free(session->ssl);
    free(session);
}

enum hf_tls_state hf__tls_session_state(const struct hf_tls_session *session)
{
    return session->state;
}

void hf__tls_feed(struct hf_tls_session *session, const char *bytes, size_t length)
{
    if (BIO_write(session->in, bytes, (int)length) != (int)length)
        fail_session(session, HF_UNREACHABLE, "out of memory for TLS", "");
    else if (session->state == HF_TLS_SHAKING)
        shake(session);
}

size_t hf__tls_read(struct hf_tls_session *session, char *room, size_t size)
{
    if (session->state != HF_TLS_OPEN)
        return 0;
    ERR_clear_error();
    int result = SSL_read(session->ssl, room, (int)size);
    if (result > 0)
        return (size_t)result;
    look_at_result(session, result);
    return 0;
}

bool hf__tls_write(struct hf_tls_session *session, const char *bytes, size_t length)
{
    if (session->state != HF_TLS_OPEN)
        return false;
    ERR_clear_error();
    int result = SSL_write(session->ssl, bytes, (int)length);
    if (result == (int)length)
        return true;
    explain(session);
    return false;
}

size_t hf__tls_take(struct hf_tls_session *session, char *room, size_t size)
{
    int result = BIO_read(session->out, room, (int)size);
    return result > 0 ? (size_t)result : 0;
}

const char *hf__tls_session_why(const struct hf_tls_session *session, int *code)
{
    *code = session->code;
    return session->why;
}
