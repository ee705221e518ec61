/* describe.c: see describe.h. */
#include "cli/launch/describe.h"

#include "cli/launch/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define OWN_HOST_BYTES 80 /* of "RUEDA_HOST=…", which takes a name of 63 */

/* Several names of this machine are hosts of their own, to try out what a job does on many: their ranks
 * share no memory. NULL: this is not one of them. The text lies in `memory`. */
static const char *own_host(const host_share *shares, size_t count, size_t at, bytes *memory)
{
    size_t here = 0;
    for (size_t i = 0; i < count; i++)
        here += shares[i].here;
    if (here < 2 || !shares[at].here || getenv("RUEDA_HOST") != NULL)
        return NULL;
    char text[OWN_HOST_BYTES];
    bytes_add(memory, text,
              1 + (size_t)snprintf(text, sizeof text, "RUEDA_HOST=%.63s", shares[at].name));
    return bytes_first(memory);
}

static char *directory_of(const launch_options *options)
{
    char *directory = options->directory != NULL ? realpath(options->directory, NULL) : NULL;
    if (options->directory == NULL)
        directory =
            get_current_dir_name(); /* by the links that led here, as other hosts have them */
    else if (directory == NULL)     /* the hosts will say that it is not there */
        (void)!asprintf(&directory, "%s", options->directory);
    return directory;
}

static host_rank *ranks_of(const launch_options *options, const host_share *shares, size_t count,
                           size_t at)
{
    const host_share *share = &shares[at];
    host_rank *ranks = bytes_new((size_t)share->count, sizeof *ranks);
    for (int i = 0; i < share->count; i++) {
        hosts_cross(shares, count, at, i, &ranks[i].cross_rank, &ranks[i].cross_size);
        if (options->rank_extra != NULL)
            ranks[i].environment = (char **)options->rank_extra[share->first + i].environment;
    }
    return ranks;
}

static char ***steps_of(const launch_options *options)
{
    char ***steps = bytes_new(options->step_count, sizeof *steps);
    for (size_t i = 0; i < options->step_count; i++)
        steps[i] = (char **)options->steps[i].command;
    return steps;
}

host_job describe_host(const launch_options *options, const host_share *shares, size_t count,
                       size_t at)
{
    const host_share *share = &shares[at];
    bytes memory = {0};
    const char *own = own_host(shares, count, at, &memory);
    return (host_job){.host = share->name,
                      .directory = directory_of(options),
                      .interfaces = options->interfaces,
                      .size = options->ranks,
                      .first = share->first,
                      .count = share->count,
                      .ranks = ranks_of(options, shares, count, at),
                      .environment = environment_for(options, share->here, own),
                      .step_count = (int)options->step_count,
                      .steps = steps_of(options),
                      .bind = options->bind,
                      .worker = options->worker,
                      .silence_s = share->here ? 0 : (int)options->silence_s,
                      .plain = options->output.plain && !options->output.timestamp,
                      .results = options->output.results != NULL,
                      .memory = memory};
}

void describe_free(host_job *job)
{
    free((char *)job->directory);
    free(job->ranks);
    free(job->environment);
    free(job->steps);
    bytes_free(&job->memory);
}
