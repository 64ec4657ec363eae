/* The engine `zk:`: opening, closing, and its table. */
#include "examine.h"
#include "latch.h"
#include "semaphore.h"
#include "survey.h"

#include "base/error.h"
#include "base/testing.h"

static int open_zookeeper(struct hf_engine **ret, const struct hf_host *host, struct hf_url *url,
                          hf_error *error)
{
    *ret = NULL;
    struct zookeeper *zk = hf__calloc(1, sizeof *zk);
    if (!zk)
        return hf__error_set(error, HF_ENOMEM, 0, "out of memory for a client of ZooKeeper");
    int code = hf__zk_settings(&zk->settings, url, error);
    if (code != HF_OK) {
        free(zk);
        return code;
    }
    zk->base.ops = &hf__zookeeper;
    zk->base.host = host;
    hf__link_init(&zk->places);
    hf__link_init(&zk->leased);
    hf__link_init(&zk->paths);
    hf__link_init(&zk->totals);
    hf__link_init(&zk->countings);
    hf__link_init(&zk->surveys);
    hf__link_init(&zk->examiners);
    hf__zk_connection_open(zk);
    hf__zk_watch_open(zk);
    *ret = &zk->base;
    return HF_OK;
}

static void close_zookeeper(struct hf_engine *engine, void (*closed)(void *arg), void *arg)
{
    struct zookeeper *zk = (struct zookeeper *)engine;
    zk->closed = closed;
    zk->closed_arg = arg;
    hf__zk_places_close(zk);
    hf__zk_watch_close(zk);
    hf__zk_latches_still(zk);
    hf__zk_connection_close(zk);
}

/* The requests first: they count their places and their sessions. */
void hf__zk_connection_closed(struct zookeeper *zk)
{
    void (*closed)(void *) = zk->closed;
    void *arg = zk->closed_arg;
    struct hf_link *link;
    hf__zk_connection_free_requests(zk);
    hf__zk_surveys_close(zk);
    hf__zk_examiners_close(zk);
    hf__zk_totals_close(zk);
    hf__zk_latches_close(zk);
    while ((link = hf__list_first(&zk->places))) {
        struct zk_place *place = HF_CONTAINER(link, struct zk_place, link);
        if (place->left_behind)
            hf__zk_place_drop(place);
        else
            hf__zk_place_leave(zk, place);
    }
    hf__zk_settings_close(&zk->settings);
    if (zk->session)
        hf__zk_session_drop(zk->session);
    if (zk->ending)
        hf__zk_session_drop(zk->ending);
    free(zk);
    closed(arg);
}

/* The child must not keep the parent's connections open, or speak on them. */
static void forked(struct hf_engine *engine)
{
    struct zookeeper *zk = (struct zookeeper *)engine;
    if (zk->stream)
        hf__stream_forked(zk->stream);
    hf__zk_examiners_forked(zk);
}

static const char *const schemes[] = { "zk", "zks", NULL };

const struct hf_engine_ops hf__zookeeper = {
    .name = "zookeeper",
    .schemes = schemes,
    .caps = HF_CAP_MUTEX | HF_CAP_FAIR | HF_CAP_RW | HF_CAP_PERMIT | HF_CAP_LATCH | HF_CAP_TOKEN |
            HF_CAP_INSPECT | HF_CAP_BREAK,
    .open = open_zookeeper,
    .close = close_zookeeper,
    .attempt = hf__zk_attempt,
    .release = hf__zk_release,
    .renew = hf__zk_renew,
    .change = hf__zk_change,
    .inspect = hf__zk_inspect,
    .examine = hf__zk_examine,
    .forked = forked,
};
