/* SPDX-License-Identifier: Apache-2.0 */
/* What a store with a server says about itself. */
#include "doctor.h"

#include <stdlib.h>
#include <string.h>

static bool is_known(const struct cli_doctor *doctor, const char *what)
{
    for (unsigned i = 0; i < doctor->known_count; i++)
        if (strcmp(doctor->known[i], what) == 0)
            return true;
    return false;
}

/* A finding about the store mostly says why a lock is refused. That its version is old does not. */
static bool tells_refusal(const char *id)
{
    return !id || strcmp(id, "old-version") != 0;
}

static bool show(void *arg, const hf_remark *remark)
{
    struct cli_doctor *doctor = arg;

    if (remark->value && !doctor->asks_again) {
        cli_doctor_fact(doctor, remark->what, "%s", remark->value);
    } else if (!remark->value && !is_known(doctor, remark->what)) {
        cli_doctor_finding(doctor, remark->id, remark->what, remark->consequence, remark->cure);
        char *copy = doctor->known_count < CLI_DOCTOR_KNOWN ? strdup(remark->what) : NULL;

        if (copy)
            doctor->known[doctor->known_count++] = copy;
        doctor->refusal_told |= tells_refusal(remark->id);
    }
    return true;
}

int cli_doctor_check_store(struct cli_doctor *doctor)
{
    return hf_examine(doctor->session->client, doctor->name, show, doctor);
}

/* Should it be silent by now, what it said before is told all the same. */
void cli_doctor_check_store_again(struct cli_doctor *doctor)
{
    doctor->asks_again = true;
    (void)hf_examine(doctor->session->client, doctor->name, show, doctor);
}

void cli_doctor_forget(struct cli_doctor *doctor)
{
    while (doctor->known_count > 0)
        free(doctor->known[--doctor->known_count]);
}
