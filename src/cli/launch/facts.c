/* facts.c: see facts.h. */
#include "cli/launch/facts.h"

#include <stdio.h>

void facts_of_rank(const host_job *job, int index, const char *meet, facts_taker *take,
                   void *context)
{
    const struct {
        const char *name;
        int value;
    } numbers[] = {
        {"RANK", job->first + index},
        {"SIZE", job->size},
        {"LOCAL_RANK", index},
        {"LOCAL_SIZE", job->count},
        {"CROSS_RANK", job->ranks[index].cross_rank},
        {"CROSS_SIZE", job->ranks[index].cross_size},
    };
    /* Under our name and under Horovod's, for scripts written for it. */
    static const char *const owners[] = {"RUEDA", "HOROVOD"};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        for (size_t k = 0; k < sizeof owners / sizeof owners[0]; k++) {
            char name[64], value[16];
            snprintf(name, sizeof name, "%s_%s", owners[k], numbers[i].name);
            snprintf(value, sizeof value, "%d", numbers[i].value);
            take(context, name, value);
        }
    }
    take(context, "HOROVOD_HOSTNAME", job->host);
    take(context, "RUEDA_JOB", job->name);
    take(context, "RUEDA_KEY", job->key);
    if (meet[0] != '\0')
        take(context, "RUEDA_MEET", meet);
}
