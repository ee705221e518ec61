/* run_compat.c: horovodrun's options: what is ours under another name, what sets a variable, what has
 * no effect here, and what is not built yet. */
#include "cli/run_compat.h"

#include "base/settings.h"
#include "plan/plan.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Options that set a variable for all ranks to a number times a scale. */
static const struct {
    const char *option, *variable;
    int64_t scale, min, max;
} numbers[RUN_NUMBERS] = {
    {"--fusion-threshold-mb", "RUEDA_FUSION_THRESHOLD", MIB, 0, 65536},
    {"--cache-capacity", "RUEDA_CACHE_CAPACITY", 1, 0, 65536},
    {"--stall-check-warning-time-seconds", "RUEDA_STALL_WARN", 1, 0, 86400},
    {"--stall-check-shutdown-time-seconds", "RUEDA_STALL_END", 1, 0, 86400},
    {"--gloo-timeout-seconds", "RUEDA_START_TIMEOUT", 1, 1, 86400},
};

/* Options that set a variable for all ranks to a text. */
static const struct {
    const char *option, *variable;
} texts[RUN_TEXTS] = {
    {"--log-level", "RUEDA_LOG_LEVEL"},
    {"--timeline-filename", "RUEDA_TIMELINE"},
};

/* What horovodrun knows and we do not, yet: a job that needs it would be another job. */
#define ELASTIC "not built yet; of elastic jobs there is --min-np"
static const option absent[] = {
    {"--max-np", NULL, ELASTIC, OPTION_ABSENT, NULL, 0, 0},
    {"--max-num-proc", NULL, ELASTIC, OPTION_ABSENT, NULL, 0, 0},
    {"--slots-per-host", NULL, ELASTIC, OPTION_ABSENT, NULL, 0, 0},
    {"--elastic-timeout", NULL, ELASTIC, OPTION_ABSENT, NULL, 0, 0},
    {"--reset-limit", NULL, ELASTIC, OPTION_ABSENT, NULL, 0, 0},
    {"--blacklist-cooldown-range", NULL, ELASTIC, OPTION_ABSENT, NULL, 0, 0},
    {"--host-discovery-script", NULL, ELASTIC, OPTION_ABSENT, NULL, 0, 0},
    {"--jsrun", NULL, "jsrun is not built yet; see --mpi", OPTION_ABSENT, NULL, 0, 0},
};

/* What tunes Horovod's own parts: the job is the same without it, so it goes on, with one warning. */
static const struct {
    const char *option, *value;
} tuning[] = {
    {"--autotune", NULL},
    {"--autotune-log-file", "FILE"},
    {"--autotune-warmup-samples", "N"},
    {"--autotune-steps-per-sample", "N"},
    {"--autotune-bayes-opt-max-samples", "N"},
    {"--autotune-gaussian-process-noise", "X"},
    {"--mpi-threads-disable", NULL},
    {"--binding-args", "WORDS"},
    {"--thread-affinity", "N"},
    {"--num-nccl-streams", "N"},
    {"--ccl-bgt-affinity", "N"},
    {"--mlsl-bgt-affinity", "N"},
    {"--torus-allreduce", NULL},
    {"--log-with-timestamp", NULL},
    {"--no-log-hide-timestamp", NULL},
    {"--cycle-time-ms", "MS"},
};

/* What asks for nothing but what is so anyway, or has nothing to switch off: no word is lost about it. */
static const char *const granted[] = {
    "--gloo",
    "--disable-cache",
    "--stall-check",
    "--no-autotune",
    "--no-hierarchical-allreduce",
    "--no-hierarchical-allgather",
    "--no-torus-allreduce",
    "--no-timeline-mark-cycles",
    "--no-mpi-threads-disable",
    "--log-without-timestamp",
    "--log-hide-timestamp",
};

/* Our own options under other names. */
static size_t add_other_names(run_options *o, option *rows)
{
    launch_options *l = &o->launch;
    const option others[] = {
        {"-n", "N", NULL, OPTION_NUMBER, &o->ranks, 1, PLAN_MAX_RANKS},
        {"--num-proc", "N", NULL, OPTION_NUMBER, &o->ranks, 1, PLAN_MAX_RANKS},
        {"--min-num-proc", "N", NULL, OPTION_NUMBER, &o->min_ranks, 1, PLAN_MAX_RANKS},
        {"--hosts", "LIST", NULL, OPTION_TEXT, &o->hosts_text, 0, 0},
        {"-hostfile", "FILE", NULL, OPTION_TEXT, &o->host_file, 0, 0},
        {"--ssh-port", "PORT", NULL, OPTION_NUMBER, &o->ssh_port, 1, UINT16_MAX},
        {"--ssh-identity-file", "FILE", NULL, OPTION_TEXT, &l->ssh.identity, 0, 0},
        {"--env", "NAME[=VALUE]", NULL, OPTION_LIST, o->variables, 0, 0},
        {"--network-interface", "NAMES", NULL, OPTION_TEXT, &l->interfaces, 0, 0},
        {"--network-interfaces", "NAMES", NULL, OPTION_TEXT, &l->interfaces, 0, 0},
        {"-prefix-timestamp", NULL, NULL, OPTION_FLAG, &l->output.timestamp, 0, 0},
        {"--prefix-output-with-timestamp", NULL, NULL, OPTION_FLAG, &l->output.timestamp, 0, 0},
        {"--hierarchical-allreduce", NULL, NULL, OPTION_FLAG, &o->hierarchical, 0, 0},
        {"--hierarchical-allgather", NULL, NULL, OPTION_FLAG, &o->hierarchical, 0, 0},
        {"--config-file", "FILE", NULL, OPTION_TEXT, &o->config_file, 0, 0},
        {"--horovodrun", NULL, NULL, OPTION_FLAG, &o->horovodrun, 0,
         0}, /* said by horovodrun itself */
        {"-cb", NULL, NULL, OPTION_FLAG, &o->check_build, 0, 0},
        {"--check-build", NULL, NULL, OPTION_FLAG, &o->check_build, 0, 0},
        {"--no-stall-check", NULL, NULL, OPTION_FLAG, &o->no_stall_check, 0, 0},
        {"--timeline-mark-cycles", NULL, NULL, OPTION_FLAG, &o->mark_cycles, 0, 0},
        {"--tcp", NULL, NULL, OPTION_FLAG, &o->tcp, 0, 0},
    };
    const size_t count = sizeof others / sizeof others[0];
    memcpy(rows, others, sizeof others);
    return count;
}

static size_t add_settings(run_options *o, option *rows)
{
    size_t count = 0;
    for (size_t i = 0; i < RUN_NUMBERS; i++) {
        o->numbers[i] = -1;
        rows[count++] = (option){.name = numbers[i].option,
                                 .value = "N",
                                 .type = OPTION_NUMBER,
                                 .target = &o->numbers[i],
                                 .min = 0,
                                 .max = INT64_MAX};
    }
    for (size_t i = 0; i < RUN_TEXTS; i++)
        rows[count++] = (option){
            .name = texts[i].option, .value = "TEXT", .type = OPTION_TEXT, .target = &o->texts[i]};
    return count;
}

static size_t add_idle(run_options *o, option *rows)
{
    size_t count = 0;
    for (size_t i = 0; i < sizeof tuning / sizeof tuning[0]; i++)
        rows[count++] = (option){.name = tuning[i].option,
                                 .value = tuning[i].value,
                                 .type = OPTION_IDLE,
                                 .target = o->idle};
    for (size_t i = 0; i < sizeof granted / sizeof granted[0]; i++)
        rows[count++] = (option){.name = granted[i], .type = OPTION_FLAG, .target = &o->granted};
    return count;
}

size_t run_compat_options(run_options *o, option rows[RUN_COMPAT_MAX])
{
    size_t count = add_other_names(o, rows);
    count += add_settings(o, rows + count);
    count += add_idle(o, rows + count);
    memcpy(rows + count, absent, sizeof absent);
    count += sizeof absent / sizeof absent[0];
    assert(count <= RUN_COMPAT_MAX);
    return count;
}

static size_t add_variable(char **list, const char *name, const char *value)
{
    return asprintf(list, "%s=%s", name, value) >= 0 ? 1 : 0;
}

/* A number that is too large for a setting asks for as much as there is. */
static int64_t nearest(int64_t number, size_t setting)
{
    const int64_t min = numbers[setting].min, max = numbers[setting].max;
    return number < min ? min : number > max ? max : number;
}

size_t run_compat_variables(const run_options *o, char **list)
{
    size_t count = 0;
    for (size_t i = 0; i < RUN_NUMBERS; i++) {
        char value[32];
        snprintf(value, sizeof value, "%" PRId64, nearest(o->numbers[i], i) * numbers[i].scale);
        if (o->numbers[i] >= 0)
            count += add_variable(list + count, numbers[i].variable, value);
    }
    for (size_t i = 0; i < RUN_TEXTS; i++) {
        if (o->texts[i] != NULL)
            count += add_variable(list + count, texts[i].variable, o->texts[i]);
    }
    if (o->no_stall_check)
        count += add_variable(list + count, "RUEDA_STALL_WARN", "0");
    if (o->timeline != NULL)
        count += add_variable(list + count, "RUEDA_TIMELINE", o->timeline);
    if (o->mark_cycles)
        count += add_variable(list + count, "RUEDA_TIMELINE_MARK_CYCLES", "1");
    if (o->tcp)
        count += add_variable(list + count, "RUEDA_TRANSPORT", "tcp");
    if (o->hierarchical)
        count += add_variable(list + count, "RUEDA_ALGORITHM", "hierarchical");
    return count;
}

/* ---- horovodrun's last words ------------------------------------------------------------------ */

typedef struct failure {
    int rank, exit_code; /* of the first rank that failed; 0: none has */
} failure;

static void note_end(void *context, size_t step, int rank, const launch_end *end)
{
    (void)step;
    failure *first = context;
    if (first->exit_code == 0)
        *first = (failure){.rank = rank, .exit_code = end->exit_code};
}

void run_compat_warn(const run_options *o)
{
    if (o->idle[0] == NULL)
        return;
    fputs("rueda run: without effect here, and left out: ", stderr);
    for (const char **name = o->idle; *name != NULL; name++)
        fprintf(stderr, "%s%s", name == o->idle ? "" : ", ", *name);
    fputc('\n', stderr);
}

int run_compat_launch(run_options *o)
{
    failure first = {0};
    o->launch.output.stream_names = true;
    o->launch.hooks = (launch_hooks){.context = &first, .rank_ended = note_end};
    const int code = launch_job(&o->launch);
    if (code != EXIT_SUCCESS && first.exit_code != 0)
        fprintf(stderr,
                "Horovod detected that one or more processes exited with non-zero status, thus "
                "causing the job to be terminated. The first process to do so was:\n"
                "Process name: %d\nExit code:    %d\n",
                first.rank, first.exit_code);
    return code;
}
