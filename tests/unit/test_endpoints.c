/* SPDX-License-Identifier: Apache-2.0 */
/* The servers of a URL: addresses, the user, and what is wrong with them. */
#include "engines/common/endpoints.h"

#include "test.h"

#include <stdio.h>

static struct hf_url url;
static struct hf_endpoints endpoints;
static hf_error error;

static int read_hosts(const char *text)
{
    CHECK_INT(hf__url_parse(&url, text, &error), HF_OK);
    endpoints = (struct hf_endpoints){ .count = 0 };
    return hf__endpoints_read(&endpoints, &url, 4711, &error);
}

TEST(endpoints_have_the_ports_of_the_url_or_the_default)
{
    CHECK_INT(read_hosts("zk://user:secret@one,two:5,[::1]:7"), HF_OK);
    CHECK_INT(endpoints.count, 3);
    CHECK_STR(endpoints.places[0].host, "one");
    CHECK_INT(endpoints.places[0].port, 4711);
    CHECK_INT(endpoints.places[1].port, 5);
    CHECK_STR(endpoints.places[2].host, "::1");
    CHECK_STR(endpoints.shown, "one:4711,two:5,[::1]:7");
    CHECK_STR(endpoints.user, "user");
    CHECK_STR(endpoints.password, "secret");
    CHECK_INT(read_hosts("zk://one"), HF_OK);
    CHECK(!endpoints.user && !endpoints.password);
}

TEST(endpoints_shown_are_cut_where_there_are_many)
{
    char text[1500] = "zk://";
    for (unsigned i = 0; i < HF_URL_HOSTS_MAX; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text),
                 "%sa-rather-long-name-of-a-host-%u", i ? "," : "", i);
    CHECK_INT(read_hosts(text), HF_OK);
    CHECK_INT(endpoints.count, HF_URL_HOSTS_MAX);
    CHECK_INT(strlen(endpoints.shown), sizeof endpoints.shown - 1);
}

TEST(endpoints_without_host_or_password_are_refused)
{
    CHECK_INT(read_hosts("zk:///path"), HF_EINVAL);
    CHECK(strstr(error.text, "name at least one server, as in zk://host:4711"));
    CHECK_INT(read_hosts("zk://user@one"), HF_EINVAL);
    CHECK(strstr(error.text, "a user needs a password: zk://user:password@host"));
}

static int read_socket(const char *text)
{
    CHECK_INT(hf__url_parse(&url, text, &error), HF_OK);
    endpoints = (struct hf_endpoints){ .count = 0 };
    return hf__endpoints_read_socket(&endpoints, &url, &error);
}

TEST(endpoint_socket_is_a_path_that_the_kernel_has_room_for)
{
    char text[140] = "redis+unix:///";
    CHECK_INT(read_socket("redis+unix:///run/store"), HF_OK);
    CHECK_STR(endpoints.places[0].path, "/run/store");
    CHECK_STR(endpoints.shown, "/run/store");
    CHECK_INT(endpoints.count, 1);
    CHECK_INT(read_socket("redis+unix://host/run/store"), HF_EINVAL);
    CHECK(strstr(error.text, "redis+unix:///path names the socket's path, and no host"));
    memset(text + strlen(text), 'x', 106);
    CHECK_INT(read_socket(text), HF_OK);
    strncat(text, "x", 2);
    CHECK_INT(read_socket(text), HF_EINVAL);
    CHECK(strstr(error.text, "107 bytes"));
}

TEST(endpoints_shuffled_are_the_same_in_another_order)
{
    unsigned first[3] = { 0 };
    for (unsigned i = 0; i < 300; i++) {
        CHECK_INT(read_hosts("zk://a:1,b:2,c:3"), HF_OK);
        hf__endpoints_shuffle(&endpoints);
        CHECK_INT(endpoints.places[0].port + endpoints.places[1].port + endpoints.places[2].port,
                  6);
        first[endpoints.places[0].port - 1]++;
    }
    CHECK(first[0] > 0 && first[1] > 0 && first[2] > 0);
}
