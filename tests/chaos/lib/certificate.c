/* SPDX-License-Identifier: Apache-2.0 */
/* Making certificates with OpenSSL, small and quick ones. */
#include "certificate.h"

#include "test.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>

static EVP_PKEY *make_key(void)
{
    /* Quick ones, of a kind that Java servers read from a file. */
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_id(EVP_PKEY_EC, NULL);
    EVP_PKEY *key = NULL;

    CHECK(context && EVP_PKEY_keygen_init(context) == 1);
    CHECK(EVP_PKEY_CTX_set_ec_paramgen_curve_nid(context, NID_X9_62_prime256v1) == 1);
    CHECK(EVP_PKEY_keygen(context, &key) == 1);
    EVP_PKEY_CTX_free(context);
    return key;
}

static FILE *open_part(const char *name, const char *part, const char *mode)
{
    FILE *file = fopen(temp_path("%s.%s", name, part), mode);

    if (!file)
        FAIL("cannot open %s.%s", name, part);
    return file;
}

static void extend(X509 *certificate, int which, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, which, value);

    CHECK(extension && X509_add_ext(certificate, extension, -1) == 1);
    X509_EXTENSION_free(extension);
}

static X509 *make_bare(const char *name, EVP_PKEY *key, long from_s, long until_s)
{
    X509 *certificate = X509_new();
    X509_NAME *subject = X509_get_subject_name(certificate);

    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), (long)(monotonic_us() & 0xffffff) + 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), from_s);
    X509_gmtime_adj(X509_getm_notAfter(certificate), until_s);
    X509_set_pubkey(certificate, key);
    CHECK(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1,
                                     -1, 0) == 1);
    return certificate;
}

static void sign(X509 *certificate, const char *authority)
{
    FILE *file = open_part(authority, "crt", "r");
    X509 *signer = PEM_read_X509(file, NULL, NULL, NULL);

    fclose(file);
    file = open_part(authority, "key", "r");
    EVP_PKEY *key = PEM_read_PrivateKey(file, NULL, NULL, NULL);
    fclose(file);
    CHECK(X509_set_issuer_name(certificate, X509_get_subject_name(signer)) == 1);
    CHECK(X509_sign(certificate, key, EVP_sha256()) > 0);
    X509_free(signer);
    EVP_PKEY_free(key);
}

void certificate_make(const char *name, const char *authority, const char *subject, long from_s,
                      long until_s)
{
    EVP_PKEY *key = make_key();
    X509 *certificate = make_bare(name, key, from_s, until_s);

    if (authority) {
        extend(certificate, NID_subject_alt_name, subject);
        sign(certificate, authority);
    } else {
        extend(certificate, NID_basic_constraints, "critical,CA:TRUE");
        CHECK(X509_set_issuer_name(certificate, X509_get_subject_name(certificate)) == 1);
        CHECK(X509_sign(certificate, key, EVP_sha256()) > 0);
    }
    FILE *file = open_part(name, "crt", "w");
    CHECK(PEM_write_X509(file, certificate) == 1);
    fclose(file);
    file = open_part(name, "key", "w");
    CHECK(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL) == 1);
    fclose(file);
    X509_free(certificate);
    EVP_PKEY_free(key);
}
