/* SPDX-License-Identifier: Apache-2.0 */
/* What a memcached server says about itself, and what about it endangers locks. */
#include "engines/common/findings.h"
#include "memcached.h"

void hf__mc_diagnose(struct memcached *mc, struct hf_oneshot *oneshot)
{
    oneshot->code = HF_OK;
    hf__oneshot_done(&mc->base, oneshot);
}
