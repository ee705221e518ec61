/* dry_run.c: a job on paper. */
#include "base/os.h"
#include "cli/launch/describe.h"
#include "cli/launch/facts.h"
#include "cli/launch/meet.h"
#include "cli/launch/ssh.h"
#include "cli/launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HIDDEN "(hidden)"
#define RANDOM "(random)"

static void print_words(const char *title, char *const *words)
{
    printf("%s", title);
    for (; *words != NULL; words++) {
        char *word = ssh_quote(*words);
        printf(" %s", word);
        free(word);
    }
    putchar('\n');
}

static void print_variable(void *unused, const char *name, const char *value)
{
    (void)unused;
    const bool secret = strcmp(name, "RUEDA_KEY") == 0, known = strcmp(value, RANDOM) != 0;
    char *word = ssh_quote(value);
    printf(" %s=%s", name, secret ? HIDDEN : known ? word : RANDOM);
    free(word);
}

/* A variable that holds a key of a job that we run in stays hidden, too. */
static void print_assignment(const char *variable)
{
    const char *value = strchr(variable, '=');
    char *name = strndup(variable, (size_t)(value - variable));
    if (name != NULL)
        print_variable(NULL, name, value + 1);
    free(name);
}

static void print_ranks(const launch_options *options, const host_job *job, const char *meet)
{
    for (int i = 0; i < job->count; i++) {
        const launch_rank *extra =
            options->rank_extra != NULL ? &options->rank_extra[job->first + i] : NULL;
        printf("  rank %d", job->first + i);
        if (extra != NULL && extra->label != NULL)
            printf(" (%s)", extra->label);
        putchar(':');
        facts_of_rank(job, i, meet, print_variable, NULL);
        for (char **own = job->ranks[i].environment; own != NULL && *own != NULL; own++)
            print_assignment(*own);
        putchar('\n');
    }
}

static void print_host(const launch_options *options, const host_share *shares, size_t count,
                       size_t at, const char *meet)
{
    const host_share *share = &shares[at];
    host_job job = describe_host(options, shares, count, at);
    job.name = RANDOM;
    job.key = HIDDEN;
    printf("host %s: %d rank%s in %s\n", share->name, share->count, share->count > 1 ? "s" : "",
           job.directory);
    if (!share->here) {
        char **command = ssh_command(&options->ssh, share->name, LAUNCH_START_S);
        print_words("  by:", command);
        ssh_command_free(command);
    }
    if (job.environment[0] != NULL) {
        printf("  all:");
        for (char **variable = job.environment; *variable != NULL; variable++)
            print_assignment(*variable);
        putchar('\n');
    }
    print_ranks(options, &job, meet);
    describe_free(&job);
}

static void print_worker(const launch_worker *worker)
{
    if (worker->ranks > 0)
        printf("workers of %d rank%s", worker->ranks, worker->ranks > 1 ? "s" : "");
    if (worker->cpus > 0)
        printf(", %d cpus", worker->cpus);
    if (worker->memory_bytes > 0)
        printf(", %lld MiB", (long long)(worker->memory_bytes >> 20));
    if (worker->ranks > 0)
        putchar('\n');
}

static bool choose_meeting(const launch_options *options, const host_share *shares, size_t count,
                           char meet[MEET_MAX])
{
    const host_share *other = NULL;
    meet[0] = '\0';
    for (size_t i = 0; i < count && other == NULL; i++)
        other = shares[i].here ? NULL : &shares[i];
    const meet_host hosts[] = {{shares[0].name, shares[0].here, NULL},
                               {other != NULL ? other->name : NULL, false, NULL}};
    return count == 1 || meet_choose(options, &hosts[0], other != NULL ? &hosts[1] : NULL, meet);
}

int launch_dry_run(const launch_options *options)
{
    size_t count;
    char meet[MEET_MAX];
    host_share *shares = hosts_share_out(options, &count);
    choose_meeting(options, shares, count, meet);
    printf("%d rank%s on %zu host%s; this is a dry run, nothing is started\n", options->ranks,
           options->ranks > 1 ? "s" : "", count, count > 1 ? "s" : "");
    print_worker(&options->worker);
    for (size_t i = 0; i < options->step_count; i++) {
        if (options->steps[i].label != NULL)
            printf("%s\n", options->steps[i].label);
        print_words("command:", options->steps[i].command);
    }
    for (size_t i = 0; i < count; i++)
        print_host(options, shares, count, i, meet);
    free(shares);
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
