/* plan_command.c: `rueda plan`: prints the plan of a collective, as it would run, or proves it. */
#include "base/text.h"
#include "cli/commands.h"
#include "cli/json_line.h"
#include "cli/options.h"
#include "plan/plan.h"
#include "plan/print.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_RANKS 256
#define DEFAULT_BYTES (64 << 20)

static const char usage[] = "rueda plan COLLECTIVE -n RANKS [--algorithm NAME] [options]";

static const char about[] =
    "Prints what each rank does in a collective: phases, steps, and the bytes a rank moves. In tick t, a\n"
    "step of stage s works on piece t - s of its chunk. With --verify: proves the plans of all ranks\n"
    "together (bounds, matching messages, no deadlock, right data, no race) and prints the verdict.\n\n"
    "collectives: allreduce allgather broadcast alltoall reducescatter reduce gather scatter barrier\n"
    "algorithms:  auto direct ring doubling halving tree bruck pairwise adasum hierarchical";

/* The command line as written. */
typedef struct words {
    const char *collective, *algorithm, *hosts, *op, *memory;
    int64_t ranks, rank, root, bytes;
    bool small, prescaled, verify, json;
} words;

/* What it means. */
typedef struct request {
    plan_collective collective;
    plan_algorithm algorithm;
    plan_layout layout;
    uint16_t host_of[MOST_RANKS];
    unsigned hosts;
    uint64_t bytes;
    int only_rank; /* -1: all */
} request;

/* ---- Understanding --------------------------------------------------------------------------- */

static int complain_name(const char *what, const char *word, const char *(*name)(int), int count)
{
    text_nearest nearest = text_nearest_to(word);
    for (int i = 0; i < count; i++)
        text_nearest_offer(&nearest, name(i));
    if (nearest.best != NULL)
        return options_complain("plan", "unknown %s %s; did you mean %s?", what, word,
                                nearest.best);
    return options_complain("plan", "unknown %s %s; see rueda plan --help", what, word);
}

static const char *collective_name(int i)
{
    return plan_collective_name((plan_collective)i);
}

static const char *algorithm_name(int i)
{
    return plan_algorithm_name((plan_algorithm)i);
}

/* "2": two hosts, as even as can be. */
static bool split_evenly(request *r, unsigned hosts)
{
    for (unsigned q = 0; q < r->layout.ranks; q++)
        r->host_of[q] = (uint16_t)(q * hosts / r->layout.ranks);
    r->hosts = hosts;
    return hosts >= 1 && hosts <= r->layout.ranks;
}

/* "3+2": three ranks on the first host, two on the second. */
static bool split_as_written(request *r, const char *text)
{
    unsigned long at = 0, host = 0;
    for (; *text != '\0'; host++) {
        char *end;
        unsigned long size = strtoul(text, &end, 10);
        if (end == text || size < 1 || size > r->layout.ranks - at ||
            (*end != '+' && *end != '\0') || (*end == '+' && end[1] == '\0'))
            return false;
        for (unsigned long q = at; q < at + size; q++)
            r->host_of[q] = (uint16_t)host;
        at += size;
        text = *end == '+' ? end + 1 : end;
    }
    r->hosts = (unsigned)host;
    return at == r->layout.ranks;
}

static bool split_hosts(request *r, const char *text)
{
    char *end;
    if (strchr(text, '+') != NULL)
        return split_as_written(r, text);
    unsigned long hosts = strtoul(text, &end, 10);
    return end != text && *end == '\0' && hosts <= MOST_RANKS && split_evenly(r, (unsigned)hosts);
}

static int understand_layout(request *r, const words *w)
{
    r->layout = (plan_layout){.ranks = (uint16_t)w->ranks,
                              .root = (uint16_t)w->root,
                              .small = w->small,
                              .prescaled = w->prescaled,
                              .adasum = r->algorithm == PLAN_ALGORITHM_ADASUM};
    r->hosts = 1;
    r->bytes = (uint64_t)w->bytes;
    r->only_rank = (int)w->rank;
    if (w->op != NULL && strcmp(w->op, "adasum") == 0)
        r->layout.adasum = true;
    else if (w->op != NULL && strcmp(w->op, "sum") != 0)
        return options_complain("plan", "--op %s changes no plan; write --op sum or --op adasum",
                                w->op);
    if (strcmp(w->memory, "shared") == 0)
        r->layout.mapped = true;
    else if (strcmp(w->memory, "private") != 0)
        return options_complain("plan", "--memory %s is not known; write private or shared",
                                w->memory);
    if (w->hosts != NULL && !split_hosts(r, w->hosts))
        return options_complain(
            "plan",
            "--hosts %s does not fit %u ranks; write a number of hosts, or ranks "
            "on each as in 3+2",
            w->hosts, r->layout.ranks);
    r->layout.host_of = r->hosts > 1 ? r->host_of : NULL;
    if (w->rank >= w->ranks || w->root >= w->ranks)
        return options_complain("plan", "ranks are 0 to %" PRId64, w->ranks - 1);
    if (r->layout.adasum && r->collective != PLAN_ALLREDUCE)
        return options_complain("plan", "adasum is for allreduce");
    return 0;
}

static int understand(request *r, const words *w)
{
    if (w->collective == NULL)
        return options_complain("plan", "which collective? write: %s", usage);
    if (w->ranks == 0)
        return options_complain("plan", "for how many ranks? write: rueda plan %s -n 4",
                                w->collective);
    if (!plan_collective_parse(w->collective, &r->collective))
        return complain_name("collective", w->collective, collective_name, PLAN_COLLECTIVE_COUNT);
    if (!plan_algorithm_parse(w->algorithm, &r->algorithm))
        return complain_name("algorithm", w->algorithm, algorithm_name, PLAN_ALGORITHM_COUNT);
    return understand_layout(r, w);
}

/* auto: what a job would use for this many bytes. */
static void choose(request *r)
{
    plan_choice choice = {.collective = r->collective,
                          .ranks = r->layout.ranks,
                          .hosts = (uint16_t)r->hosts,
                          .bytes = r->bytes,
                          .adasum = r->layout.adasum,
                          .shared_memory = true,
                          .equal_parts = true};
    bool small;
    if (r->algorithm != PLAN_ALGORITHM_AUTO)
        return;
    r->algorithm = plan_select(&choice, &small);
    r->layout.small = r->layout.small || small;
}

/* ---- Output ---------------------------------------------------------------------------------- */

static void print_bytes(uint64_t bytes)
{
    static const char *const UNITS[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double number = (double)bytes;
    int unit = 0;
    for (; number >= 1024 && unit < 4; unit++)
        number /= 1024;
    printf(unit == 0 ? "%.0f %s" : "%.2f %s", number, UNITS[unit]);
}

static void print_traffic(plan *const *plans, const request *r)
{
    uint64_t most, least;
    plan_traffic(plans, r->bytes, &most, &least);
    if (r->collective == PLAN_BARRIER)
        return;
    printf("of ");
    print_bytes(r->bytes);
    printf(", a rank moves at most ");
    print_bytes(most);
    printf("; the least any algorithm needs is ");
    print_bytes(least);
    if (least != 0)
        printf(" (%.2f times)", (double)most / (double)least);
    putchar('\n');
}

/* Steps before the first and after the last phase have none: -1. */
static void print_json_step(const plan *p, uint32_t number, int phase, bool once)
{
    const plan_step *step = &p->steps[number];
    char text[PLAN_STEP_TEXT];
    plan_describe_step(p, step, text);
    json_line_print(json_pack("{s:I, s:o, s:b, s:I, s:I, s:s}", "rank", (json_int_t)p->layout.rank,
                              "phase", phase < 0 ? json_null() : json_integer(phase), "once", once,
                              "step", (json_int_t)number, "stage", (json_int_t)step->stage, "text",
                              text));
}

static void print_json_steps(const plan *p)
{
    for (uint32_t i = 0; i < p->entry_count; i++)
        print_json_step(p, i, -1, true);
    for (uint32_t f = 0; f < p->phase_count; f++)
        for (uint32_t i = 0; i < p->phases[f].count; i++)
            print_json_step(p, p->phases[f].first + i, (int)f, p->phases[f].once);
    print_json_step(p, p->step_count - 1, -1, true);
}

static void print_json_traffic(plan *const *plans, const request *r)
{
    uint64_t most, least;
    plan_traffic(plans, r->bytes, &most, &least);
    json_line_print(json_pack(
        "{s:s, s:s, s:I, s:I, s:I, s:I}", "collective", plan_collective_name(r->collective),
        "algorithm", plan_algorithm_name(r->algorithm), "ranks", (json_int_t)r->layout.ranks,
        "bytes", (json_int_t)r->bytes, "most", (json_int_t)most, "least", (json_int_t)least));
}

static void print_plans(plan *const *plans, const request *r, bool json)
{
    for (unsigned q = 0; q < r->layout.ranks; q++) {
        if (r->only_rank >= 0 && r->only_rank != (int)q)
            continue;
        if (json)
            print_json_steps(plans[q]);
        else
            plan_print(plans[q], stdout);
    }
    if (json)
        print_json_traffic(plans, r);
    else
        print_traffic(plans, r);
}

static int print_verdict(plan *const *plans, const request *r, bool json)
{
    const plan_verdict v = plan_verify(plans);
    const bool proved = v.failed == PLAN_CHECK_OK;
    if (json) {
        json_line_print(json_pack("{s:b, s:s?, s:b, s:b, s:I, s:I, s:I, s:s}", "proved", proved,
                                  "failed", proved ? NULL : plan_check_name(v.failed),
                                  "self_finishing", proved && v.self_finishing, "one_order",
                                  proved && v.one_order, "pieces", (json_int_t)v.pieces, "rank",
                                  (json_int_t)v.rank, "step", (json_int_t)v.step, "text", v.text));
    } else if (proved) {
        printf(
            "proved: %s by %s for %u ranks, after any other plan: bounds, matching, no deadlock, data, "
            "no race\n%s\n",
            plan_collective_name(r->collective), plan_algorithm_name(r->algorithm), r->layout.ranks,
            v.self_finishing
                ? "self-finishing: once one rank has ended, no other needs anybody's further step"
                : "not self-finishing: a rank that has ended does not mean that the others can");
    } else {
        printf("wrong: %s: with %u pieces, rank %u, step %u: %s\n", plan_check_name(v.failed),
               v.pieces, v.rank, v.step, v.text);
    }
    return proved ? 0 : 1;
}

/* ---- The command ----------------------------------------------------------------------------- */

static int show(request *r, const words *w)
{
    plan *plans[MOST_RANKS] = {NULL};
    const char *why = NULL;
    unsigned built = 0;
    int code = 0;
    choose(r);
    while (built < r->layout.ranks) {
        r->layout.rank = (uint16_t)built;
        plans[built] = plan_build(r->collective, r->algorithm, &r->layout, &why);
        if (plans[built] == NULL)
            break;
        built++;
    }
    if (built < r->layout.ranks)
        code = options_complain("plan", "no %s by %s here: %s; --algorithm auto finds one",
                                plan_collective_name(r->collective),
                                plan_algorithm_name(r->algorithm), why);
    else if (w->verify)
        code = print_verdict(plans, r, w->json);
    else
        print_plans(plans, r, w->json);
    for (unsigned q = 0; q < built; q++)
        plan_free(plans[q]);
    return code;
}

int plan_command(int argc, char **argv)
{
    words w = {.algorithm = "auto", .memory = "private", .rank = -1, .bytes = DEFAULT_BYTES};
    const option options[] = {
        {"-n", "RANKS", "number of ranks", OPTION_NUMBER, &w.ranks, 1, MOST_RANKS},
        {"--algorithm", "NAME", "default: auto, what a job would use", OPTION_TEXT, &w.algorithm, 0,
         0},
        {"--hosts", "HOSTS", "number of hosts, or the ranks on each: 3+2", OPTION_TEXT, &w.hosts, 0,
         0},
        {"--rank", "RANK", "print only this rank's plan", OPTION_NUMBER, &w.rank, 0,
         MOST_RANKS - 1},
        {"--root", "RANK", "of a broadcast, reduce, gather or scatter", OPTION_NUMBER, &w.root, 0,
         MOST_RANKS - 1},
        {"--op", "OP", "sum or adasum", OPTION_TEXT, &w.op, 0, 0},
        {"--memory", "KIND", "of the tensors: private (default) or shared", OPTION_TEXT, &w.memory,
         0, 0},
        {"--prescale", NULL, "the inputs are scaled first", OPTION_FLAG, &w.prescaled, 0, 0},
        {"--small", NULL, "the form for least latency", OPTION_FLAG, &w.small, 0, 0},
        {"--bytes", "BYTES", "of the tensor (default: 64 MiB)", OPTION_NUMBER, &w.bytes, 0,
         INT64_MAX},
        {"--verify", NULL, "prove the plans instead of printing them", OPTION_FLAG, &w.verify, 0,
         0},
        {"--json", NULL, "one JSON object a line", OPTION_FLAG, &w.json, 0, 0},
    };
    const command_line line = {.usage = usage,
                               .about = about,
                               .options = options,
                               .option_count = sizeof options / sizeof options[0],
                               .operand = &w.collective};
    request r = {0};
    int next;
    const options_result parsed = options_parse(&line, argc, argv, &next);
    if (parsed != OPTIONS_GO)
        return options_exit_code(parsed);
    if (next != argc)
        return options_complain("plan", "one collective at a time; write: %s", usage);
    const int wrong = understand(&r, &w);
    return wrong != 0 ? wrong : show(&r, &w);
}
