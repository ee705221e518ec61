/* events.h: what happens to a job, one JSON object a line. Every object has "event" and "time"
 * (seconds since 1970). Nothing is done when nobody wants them. */
#ifndef RUEDA_CLI_LAUNCH_EVENTS_H
#define RUEDA_CLI_LAUNCH_EVENTS_H

#include "cli/launch/output.h"

void events_job_start(output *o, const char *job, size_t hosts);
void events_step_start(output *o, size_t step);
void events_rank_start(output *o, size_t step, int rank, const char *host, int pid);
void events_line(output *o, int rank, const char *stream, const char *data, size_t count);
void events_rank_end(output *o, size_t step, int rank, const char *host, const launch_end *end);
/* The job goes on without the rank; `running`: how many others still run. */
void events_rank_lost(output *o, size_t step, int rank, const char *host, int running);
/* `cause`: NULL if all went well. `lost`: how many ranks; told of an elastic job. */
void events_job_end(output *o, int exit_code, const char *cause, int lost, double seconds);

#endif
