/* facts.h: the variables that tell a rank who it is. */
#ifndef RUEDA_CLI_LAUNCH_FACTS_H
#define RUEDA_CLI_LAUNCH_FACTS_H

#include "cli/launch/host_job.h"

/* Called for every variable in turn; the texts live until it returns. */
typedef void facts_taker(void *context, const char *name, const char *value);

/* Of the host's rank `index`. `meet`: where rank 0 is met; "" leaves it out. The job's key is among
 * them. */
void facts_of_rank(const host_job *job, int index, const char *meet, facts_taker *take,
                   void *context);

#endif
