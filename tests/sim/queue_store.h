/* SPDX-License-Identifier: Apache-2.0 */
/* The queue store: sessions, numbered nodes, and a watch on whoever stands in front. One lease, the
 * session's, carries every grant and every place in a queue. */
#ifndef TESTS_SIM_QUEUE_STORE_H
#define TESTS_SIM_QUEUE_STORE_H

#include "engine.h"

struct sim_engine *queue_engine_open(struct sim_client *client);

#endif
