/* main.c: `rueda sim faults`: one seed with its story, or many of them until one fails. */
#include "cli/options.h"
#include "sim/many.h"
#include "sim/shorten.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SEEDS_DEFAULT "1..300"
#define COMMAND 600 /* bytes, with all that can be left out */

typedef struct wishes {
    int64_t seed, workers;
    const char *seeds, *without, *timeline;
    bool as_is;
} wishes;

static int complain(const char *option, const char *text, const char *write)
{
    return options_complain("sim faults", "%s '%s' is not understood; write %s", option, text,
                            write);
}

/* "A..B" */
static bool read_range(const char *text, uint64_t *first, uint64_t *last)
{
    char *end;
    *first = strtoull(text, &end, 10);
    if (end == text || strncmp(end, "..", 2) != 0)
        return false;
    const char *second = end + 2;
    *last = strtoull(second, &end, 10);
    return end != second && *end == '\0' && *first <= *last;
}

static void print_result(uint64_t seed, const run_result *r)
{
    printf("seed %llu: %s\n%s", (unsigned long long)seed, r->job, r->story);
    if (r->failed != INVARIANT_NONE)
        printf("FAILED, %s: %s\n", invariant_name(r->failed), r->failure);
    else
        printf("All is as it must be.\n");
    printf("%.3f s of the world, %llu events; trace %016llx\n", (double)r->world_ns / 1e9,
           (unsigned long long)r->events, (unsigned long long)r->trace);
}

static void print_task(const trial *t, const task *k)
{
    printf("    t%u: %s '%s'", k->number, task_name(k->kind), k->name);
    if (k->kind != TASK_BARRIER)
        printf(", %u %s%s", k->count, rueda_dtype_name(k->dtype), k->shared ? ", shared" : "");
    if (k->kind == TASK_ALLREDUCE || k->kind == TASK_REDUCE || k->kind == TASK_REDUCESCATTER)
        printf(", %s", rueda_op_name(k->op));
    if (k->kind == TASK_MESSAGE)
        printf(", from %d to %d", k->root, k->peer);
    printf(", ranks");
    for (int r = 0; r < t->ranks; r++) {
        if (trial_takes_part(t, k, r))
            printf(" %d", r);
    }
    putchar('\n');
}

static void print_tasks(const trial *t)
{
    for (int b = 0; b < t->batch_count; b++) {
        printf("batch%s\n", t->batches[b].one_by_one ? ", one by one" : "");
        for (int k = 0; k < t->batches[b].count; k++)
            print_task(t, &t->batches[b].tasks[k]);
    }
}

static int run_one(uint64_t seed, const char *path, const trial_limits *limits)
{
    static trial t;
    static run_result r;
    FILE *timeline = path == NULL ? NULL : fopen(path, "w");
    if (path != NULL && timeline == NULL)
        return options_complain("sim faults", "%s cannot be written: %s", path, strerror(errno));
    trial_draw(&t, seed, limits);
    print_tasks(&t);
    run_trial(&t, timeline, &r);
    if (timeline != NULL && fclose(timeline) != 0)
        return options_complain("sim faults", "%s cannot be written: %s", path, strerror(errno));
    print_result(seed, &r);
    return r.failed != INVARIANT_NONE ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* A seed has failed: the shortest form of it that still does, and how to see it again. */
static int tell_failure(uint64_t seed, trial_limits limits, bool as_is)
{
    char command[COMMAND];
    if (!as_is)
        shorten(seed, &limits);
    shorten_command(seed, &limits, command, sizeof command);
    printf("Seed %llu fails. To see it again: %s\n", (unsigned long long)seed, command);
    fflush(stdout);
    shorten_show(seed, &limits, print_result);
    return EXIT_FAILURE;
}

static int run_many(const wishes *w, uint64_t first, uint64_t last, const trial_limits *limits)
{
    uint64_t failing;
    if (many_run(first, last, (int)w->workers, limits, &failing)) {
        const unsigned long long from = first, to = last;
        printf("%llu seeds, from %llu to %llu: all is as it must be.\n", to - from + 1, from, to);
        return EXIT_SUCCESS;
    }
    return tell_failure(failing, *limits, w->as_is);
}

/* `faults` and `members`. */
static int run_trials(bool elastic, int argc, char **argv)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    wishes w = {.seed = -1, .workers = cores > 0 ? cores : 1};
    const option options[] = {
        {"--seed", "N", "one seed, with its story", OPTION_NUMBER, &w.seed, 0, INT64_MAX},
        {"--seeds", "A..B", "these, until one fails; " SEEDS_DEFAULT, OPTION_TEXT, &w.seeds, 0, 0},
        {"--workers", "N", "so many seeds at a time; as many as cores", OPTION_NUMBER, &w.workers,
         1, MANY_WORKERS},
        {"--as-is", NULL, "do not shorten a seed that fails", OPTION_FLAG, &w.as_is, 0, 0},
        {"--timeline", "FILE", "with --seed: write what the ranks did, for ui.perfetto.dev",
         OPTION_TEXT, &w.timeline, 0, 0},
        {"--without", "LIST",
         "leave out mishaps (0), batches (b3), tasks (t12), stranger, lives, sizes, whims",
         OPTION_TEXT, &w.without, 0, 0},
    };
    const command_line line = {
        .usage = elastic ? "rueda sim members [--seed N | --seeds A..B] [options]"
                         : "rueda sim faults [--seed N | --seeds A..B] [options]",
        .about =
            "Lets jobs live in a simulated world, where the seed decides everything: how many ranks and\n"
            "hosts there are, what they do, in which order things happen, and who dies, stops or is cut\n"
            "off when. What must hold is checked. The same seed gives the same run on every machine.",
        .options = options,
        .option_count = sizeof options / sizeof *options};
    int next;
    const options_result parsed = options_parse(&line, argc, argv, &next);
    if (parsed != OPTIONS_GO)
        return options_exit_code(parsed);
    if (next != argc)
        return complain("the argument", argv[next], "rueda sim faults --seed 17");
    trial_limits limits = {.elastic = elastic};
    uint64_t first, last;
    if (!read_range(w.seeds == NULL ? SEEDS_DEFAULT : w.seeds, &first, &last))
        return complain("--seeds", w.seeds, "--seeds 1..300");
    if (w.without != NULL && !trial_limits_read(&limits, w.without))
        return complain("--without", w.without, "--without 0,b3,t12,stranger,lives,sizes,whims");
    if (w.seed >= 0)
        return run_one((uint64_t)w.seed, w.timeline, &limits);
    if (w.timeline != NULL)
        return complain("--timeline", w.timeline, "--seed 17 as well: it is of one seed");
    return run_many(&w, first, last, &limits);
}

int main(int argc, char **argv)
{
    if (argc > 1 && (strcmp(argv[1], "faults") == 0 || strcmp(argv[1], "members") == 0))
        return run_trials(argv[1][0] == 'm', argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "--help") != 0)
        return options_complain(
            "sim", "'%s' is not known; write rueda sim faults, or see rueda sim --help", argv[1]);
    fputs("usage: rueda sim faults|members [options]\n\n"
          "  faults    jobs whose ranks die, stop or are cut off, as a seed decides\n"
          "  members   elastic jobs, which go on without the ranks that they lose\n\n"
          "rueda sim faults --help tells more.\n",
          argc > 1 ? stdout : stderr);
    return argc > 1 ? EXIT_SUCCESS : EXIT_USAGE;
}
