/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers the faults: when each was on, which client it was aimed at, and whether it hit. */
#include "torture/timeline/timeline_model.h"

#include <stdio.h>
#include <string.h>

static uint32_t kind_of(struct timeline_model *model, const struct torture_record *record)
{
    char name[33];
    uint32_t i;

    snprintf(name, sizeof(name), "%.32s", record->text[0] ? record->text : "(no name)");
    for (i = 0; i < model->kind_count; i++)
        if (!strcmp(model->kinds[i].name, name))
            return i;
    if (i == PICTURE_KINDS)
        return i - 1;
    if (i == PICTURE_KINDS - 1)
        snprintf(name, sizeof(name), "(others)");
    memcpy(model->kinds[i].name, name, sizeof(name));
    model->kind_count++;
    return i;
}

void timeline_fault_on(struct timeline_model *model, const struct torture_record *record)
{
    struct timeline_fault *fault = &model->faults[model->fault_count++];

    fault->on = timeline_when(model, record->at_ns);
    fault->off = PICTURE_NEVER;
    fault->lane = timeline_lane_of(model, record->client);
    fault->kind = kind_of(model, record);
    model->kinds[fault->kind].times++;
}

/* How many may be on at a time. */
enum { FAULTS_BACK = 1000 };

/* The latest of this name and victim that is still on. */
static struct timeline_fault *open_fault(struct timeline_model *model,
                                         const struct torture_record *record)
{
    uint32_t kind = kind_of(model, record), lane = timeline_lane_of(model, record->client);

    for (uint32_t back = 1; back <= model->fault_count && back <= FAULTS_BACK; back++) {
        struct timeline_fault *fault = &model->faults[model->fault_count - back];

        if (fault->kind == kind && fault->lane == lane && fault->off == PICTURE_NEVER)
            return fault;
    }
    return NULL;
}

void timeline_fault_hit(struct timeline_model *model, const struct torture_record *record)
{
    struct timeline_fault *fault = open_fault(model, record);

    if (fault && fault->hits++ == 0)
        model->kinds[fault->kind].hit++;
}

void timeline_fault_off(struct timeline_model *model, const struct torture_record *record)
{
    struct timeline_fault *fault = open_fault(model, record);

    if (fault)
        fault->off = timeline_when(model, record->at_ns) < fault->on
                         ? fault->on
                         : timeline_when(model, record->at_ns);
}
