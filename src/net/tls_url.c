/* SPDX-License-Identifier: Apache-2.0 */
/* TLS as URLs ask for it, the same for every engine: ca=FILE, cert=FILE, key=FILE, verify=yes. */
#include "net/tls.h"

#include "base/url.h"

/* Long enough not to be written without knowing. */
#define VERIFY_NOTHING "insecure"

int hf__tls_open_by_url(struct hf_tls **ret, struct hf_url *url, hf_error *error)
{
    struct hf_tls_settings settings = {
        .authorities = hf__url_option(url, "ca", NULL),
        .certificate = hf__url_option(url, "cert", NULL),
        .key = hf__url_option(url, "key", NULL),
    };
    *ret = NULL;
    if (!hf__url_choice(url, "verify", "yes", VERIFY_NOTHING, &settings.any_server))
        return hf__url_refuse(url, error,
                              "verify is yes, or " VERIFY_NOTHING ", where any server "
                              "may have the password and the locks");
    return hf__tls_open(ret, &settings, error);
}
