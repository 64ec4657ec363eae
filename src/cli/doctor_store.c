/* What a store with a server says about itself. */
#include "doctor.h"

static bool show(void *arg, const hf_remark *remark)
{
    struct cli_doctor *doctor = arg;

    if (remark->value)
        cli_doctor_fact(doctor, remark->what, "%s", remark->value);
    else
        cli_doctor_finding(doctor, remark->what, remark->consequence, remark->cure);
    return true;
}

int cli_doctor_check_store(struct cli_doctor *doctor)
{
    return hf_examine(doctor->session->client, show, doctor);
}
