/* SPDX-License-Identifier: Apache-2.0 */
/* Requests in flight: their order, that each is completed once, and their memory. */
#include "engines/common/pipeline.h"

#include "test.h"

#include <stdio.h>
#include <stdlib.h>

struct request {
    struct hf_pipeline_item item;
    char letter;
    bool asks_again;
    void *memory;
};

static struct hf_pipeline pipeline;
static struct request requests[6];
static char completed[20];

static struct request *request_of(struct hf_pipeline_item *item)
{
    return (struct request *)item;
}

static void unanswered(struct hf_pipeline *of, struct hf_pipeline_item *item)
{
    struct request *request = request_of(item);
    CHECK(!hf__link_linked(&item->link));
    completed[strlen(completed)] = request->letter;
    if (request->asks_again)
        hf__pipeline_wait(of, item);
}

static void begin(void)
{
    hf__pipeline_init(&pipeline, unanswered);
    for (unsigned i = 0; i < sizeof requests / sizeof *requests; i++) {
        requests[i] = (struct request){ .letter = (char)('a' + i) };
        hf__link_init(&requests[i].item.link);
    }
}

TEST(pipeline_replies_go_to_requests_in_the_order_of_sending)
{
    begin();
    hf__pipeline_wait(&pipeline, &requests[0].item);
    hf__pipeline_wait(&pipeline, &requests[1].item);
    CHECK(!requests[0].item.sent);
    CHECK_INT(hf__pipeline_oldest_ms(&pipeline), HF_NEVER);
    struct hf_pipeline_item *item;
    int64_t now_ms = 100;
    while ((item = hf__pipeline_next(&pipeline)))
        hf__pipeline_sent(&pipeline, item, now_ms++);
    hf__pipeline_sent(&pipeline, &requests[2].item, now_ms);
    CHECK(requests[0].item.sent);
    CHECK_INT(hf__pipeline_oldest_ms(&pipeline), 100);
    CHECK(hf__pipeline_first_out(&pipeline) == &requests[0].item);
    CHECK(hf__pipeline_replied(&pipeline) == &requests[0].item);
    CHECK_INT(hf__pipeline_oldest_ms(&pipeline), 101);
    CHECK(hf__pipeline_replied(&pipeline) == &requests[1].item);
    CHECK(hf__pipeline_replied(&pipeline) == &requests[2].item);
    CHECK(!hf__pipeline_replied(&pipeline));
    CHECK_INT(hf__pipeline_oldest_ms(&pipeline), HF_NEVER);
    CHECK_STR(completed, "");
}

TEST(pipeline_failed_completes_each_request_once_the_sent_ones_first)
{
    begin();
    hf__pipeline_wait(&pipeline, &requests[3].item);
    hf__pipeline_sent(&pipeline, &requests[0].item, 1);
    hf__pipeline_sent(&pipeline, &requests[1].item, 2);
    hf__pipeline_fail(&pipeline, false);
    CHECK_STR(completed, "ab");
    CHECK(hf__link_linked(&requests[3].item.link));
    hf__pipeline_fail(&pipeline, true);
    CHECK_STR(completed, "abd");
    hf__pipeline_fail(&pipeline, true);
    CHECK_STR(completed, "abd");
}

TEST(pipeline_request_queued_anew_in_its_completion_stays_for_the_next_connection)
{
    begin();
    requests[0].asks_again = requests[2].asks_again = true;
    hf__pipeline_sent(&pipeline, &requests[0].item, 1);
    hf__pipeline_sent(&pipeline, &requests[1].item, 1);
    hf__pipeline_wait(&pipeline, &requests[2].item);
    hf__pipeline_fail(&pipeline, true);
    CHECK_STR(completed, "abc");
    CHECK(hf__pipeline_next(&pipeline) == &requests[0].item);
    CHECK(hf__pipeline_next(&pipeline) == &requests[2].item);
    CHECK(!hf__pipeline_next(&pipeline));
}

static unsigned emptied;

static void empty(struct hf_pipeline_item *item)
{
    emptied++;
    free(request_of(item)->memory);
}

TEST(free_list_hands_out_used_items_before_new_ones)
{
    struct hf_free_list list;
    hf__free_list_init(&list, sizeof(struct request));
    struct hf_pipeline_item *one = hf__free_list_take(&list), *two = hf__free_list_take(&list);
    CHECK(one && two && one != two && !request_of(one)->memory);
    CHECK(!hf__link_linked(&one->link));
    request_of(one)->memory = malloc(10);
    hf__free_list_put(&list, one);
    CHECK(hf__free_list_take(&list) == one);
    CHECK(!hf__link_linked(&one->link));
    hf__free_list_put(&list, one);
    hf__free_list_put(&list, two);
    hf__free_list_end(&list, empty);
    CHECK_INT(emptied, 2);
}
