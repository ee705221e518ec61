/* bench_command.c: `rueda bench`: understands the command line and starts the ranks. */
#include "base/text.h"
#include "cli/bench.h"
#include "cli/bench_peer.h"
#include "cli/bench_scenario.h"
#include "cli/commands.h"
#include "cli/launcher.h"
#include "cli/mpirun.h"
#include "cli/options.h"
#include "transport/registry.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORKER "--worker" /* first word of a rank: the number of the board's descriptor follows */
#define RANKS_DEFAULT 2
#define ITERATIONS_MAX 100000000
#define IDLE_MAX_MS 60000
#define SECONDS_DEFAULT 1.0
#define SECONDS_PEER 3.0 /* two sides, and slices in several moods of the machine */
#define SECONDS_MAX 3600.0
#define SIZE_MAX_BYTES (UINT64_C(1) << 36)

static const char usage[] = "rueda bench WHAT -np N [options]";
static const char about[] =
    "Measures WHAT between N ranks of this machine through the public calls: submit, agree, run, wait.\n"
    "WHAT is a collective (allreduce, allgather, broadcast, alltoall, reducescatter, reduce, gather, scatter,\n"
    "barrier) or one of\n"
    "  tensors   1,000 tensors of 4 KiB at once, against one of their total\n"
    "  behind    4 KiB submitted behind 256 MiB: which ends first, and when\n"
    "  idle      what a job costs that does nothing for 5 s\n"
    "  startup   from the launch to the first result, and a new start in the same process\n"
    "  observe   what the trace and the timeline cost an allreduce\n"
    "  sendrecv  a tensor of 4 bytes to 8 MiB from rank 0 to the last rank and back\n"
    "With --against the other side runs in short slices between ours, so that both see the same\n"
    "machine. Sizes are bytes, with K, M, G for 1024: --sizes 4,64K,16M.";

/* The words as they were written. */
typedef struct words {
    const char *what, *sizes, *dtype, *op, *algorithm, *transport, *memory, *against, *seconds,
        *bind;
} words;

/* ---- Words to values ------------------------------------------------------------------------- */

/* One size from the text; returns what follows it, NULL if it is none. */
static const char *parse_size(const char *text, uint64_t *bytes)
{
    static const char suffixes[] = "KMG";
    char *end;
    if (*text < '0' || *text > '9')
        return NULL;
    errno = 0;
    const unsigned long long number = strtoull(text, &end, 10);
    const char *suffix = *end != '\0' ? strchr(suffixes, *end & ~32) : NULL;
    const int shift = suffix != NULL ? 10 * (int)(suffix - suffixes + 1) : 0;
    if (errno != 0 || number > SIZE_MAX_BYTES >> shift)
        return NULL;
    *bytes = (uint64_t)number << shift;
    return end + (suffix != NULL);
}

static int parse_sizes(const char *text, bench_options *o)
{
    const char *at = text;
    for (o->size_count = 0; o->size_count < BENCH_SIZES_MAX;) {
        at = parse_size(at, &o->sizes[o->size_count]);
        if (at == NULL || (*at != ',' && *at != '\0'))
            break;
        o->size_count++;
        if (*at++ == '\0')
            return 0;
    }
    return options_complain("bench", "--sizes %s is not valid; write for example --sizes 4,64K,16M",
                            text);
}

static int parse_dtype(const char *text, rueda_dtype *dtype)
{
    for (int i = 0; i < RUEDA_DTYPE_COUNT; i++) {
        if (strcmp(text, rueda_dtype_name((rueda_dtype)i)) == 0)
            return *dtype = (rueda_dtype)i, 0;
    }
    return options_complain("bench",
                            "--dtype %s is unknown; float32, float64, float16, bfloat16, int32 "
                            "and the other types of rueda.h are possible",
                            text);
}

static int parse_op(const char *text, rueda_op *op)
{
    for (int i = 0; i < RUEDA_OP_COUNT; i++) {
        if (strcmp(text, rueda_op_name((rueda_op)i)) == 0)
            return *op = (rueda_op)i, 0;
    }
    return options_complain(
        "bench", "--op %s is unknown; give sum, average, adasum, min, max or product", text);
}

static int parse_against(const char *text, bench_peer *peer)
{
    for (int i = PEER_SUM; text != NULL && i <= PEER_SOCKET; i++) {
        if (strcmp(text, bench_peer_name((bench_peer)i)) == 0)
            return *peer = (bench_peer)i, 0;
    }
    if (text == NULL)
        return *peer = PEER_NONE, 0;
    return options_complain(
        "bench", "--against %s is unknown; give openmpi, mpich, gloo, socket or sum", text);
}

static int parse_memory(const char *text, bool *shared)
{
    *shared = strcmp(text, "shared") == 0;
    if (*shared || strcmp(text, "private") == 0)
        return 0;
    return options_complain("bench", "--memory %s is unknown; give private or shared", text);
}

/* mpirun binds its processes too; without it, two that wait for each other may share a core. */
static int parse_bind(const char *text, bench_options *o)
{
    o->bind = strcmp(text, "core") == 0;
    if (!o->bind && strcmp(text, "none") != 0)
        return options_complain("bench", "--bind %s is unknown; give core or none", text);
    o->bind = o->bind && o->ranks <= world_cpu_count();
    return 0;
}

static int parse_transport(const char *text, bench_options *o)
{
    char list[TRANSPORT_LIST_TEXT];
    const transport_table *named = transport_named(text);
    transport_list(list);
    if (named == NULL && strcmp(text, "auto") != 0)
        return options_complain("bench", "--transport %s is unknown; give %s", text, list);
    o->transport = text;
    o->by_mpirun = named != NULL && named->by_mpirun;
    return 0;
}

static int parse_seconds(const char *text, bench_options *o)
{
    char *end;
    o->seconds = o->against == PEER_NONE ? SECONDS_DEFAULT : SECONDS_PEER;
    if (text == NULL)
        return 0;
    o->seconds = strtod(text, &end);
    if (end != text && *end == '\0' && o->seconds >= 0 && o->seconds <= SECONDS_MAX)
        return 0;
    return options_complain("bench", "--seconds %s is not valid; give a number from 0 to %.0f",
                            text, SECONDS_MAX);
}

/* ---- What goes together ---------------------------------------------------------------------- */

static bool is_float(rueda_dtype dtype)
{
    return dtype == RUEDA_F16 || dtype == RUEDA_BF16 || dtype == RUEDA_F32 || dtype == RUEDA_F64;
}

static int check_combination(const bench_options *o)
{
    plan_algorithm algorithm;
    if (!plan_algorithm_parse(o->algorithm, &algorithm))
        return options_complain("bench", "--algorithm %s is unknown; rueda plan --help lists them",
                                o->algorithm);
    if (o->against == PEER_SOCKET && (o->ranks != 2 || o->collective != PLAN_ALLREDUCE))
        return options_complain("bench", "--against socket is for allreduce with -np 2");
    if (o->op == RUEDA_ADASUM && (o->collective != PLAN_ALLREDUCE || !is_float(o->dtype)))
        return options_complain("bench", "--op adasum is for allreduce of floating-point types");
    if (o->dtype == RUEDA_BOOL && o->op == RUEDA_AVERAGE)
        return options_complain("bench", "--op average has no meaning for bool");
    if (o->against == PEER_SUM && o->op != RUEDA_ADASUM)
        return options_complain("bench", "--against sum is for adasum; add --op adasum");
    if (o->against > PEER_SUM && o->op == RUEDA_AVERAGE)
        return options_complain("bench", "%s has no %s; choose another --op",
                                bench_peer_name(o->against), rueda_op_name(o->op));
    if (o->against > PEER_SUM &&
        (o->dtype == RUEDA_F16 || o->dtype == RUEDA_BF16 || o->dtype == RUEDA_BOOL))
        return options_complain("bench", "%s has no %s; choose another --dtype",
                                bench_peer_name(o->against), rueda_dtype_name(o->dtype));
    if (o->busy_peer && (o->against != PEER_NONE || o->ranks < 2))
        return options_complain("bench", "--peer-computes needs 2 ranks, and no --against");
    const char *missing = bench_peer_missing(o->against);
    if (missing != NULL)
        return options_complain("bench", "%s", missing);
    return 0;
}

static int complain_unknown(const char *what)
{
    text_nearest nearest = text_nearest_to(what);
    for (int i = 0; i < PLAN_COLLECTIVE_COUNT; i++)
        text_nearest_offer(&nearest, plan_collective_name((plan_collective)i));
    for (const bench_scenario *s = bench_scenario_list(); s->name != NULL; s++)
        text_nearest_offer(&nearest, s->name);
    if (nearest.best != NULL)
        return options_complain("bench", "cannot measure %s; did you mean %s?", what, nearest.best);
    return options_complain("bench", "cannot measure %s; rueda bench --help lists what it can",
                            what);
}

static int understand(const words *w, bench_options *o)
{
    if (w->what == NULL)
        return options_complain("bench", "what shall be measured? write: %s", usage);
    o->scenario = bench_scenario_find(w->what);
    if (o->scenario == NULL && !plan_collective_parse(w->what, &o->collective))
        return complain_unknown(w->what);
    o->what = w->what;
    o->algorithm = w->algorithm;
    int bad = parse_sizes(o->collective == PLAN_BARRIER ? "0" : w->sizes, o);
    bad = bad != 0 ? bad : parse_transport(w->transport, o);
    bad = bad != 0 ? bad : parse_dtype(w->dtype, &o->dtype);
    bad = bad != 0 ? bad : parse_op(w->op, &o->op);
    bad = bad != 0 ? bad : parse_memory(w->memory, &o->shared);
    bad = bad != 0 ? bad : parse_against(w->against, &o->against);
    bad = bad != 0 ? bad : parse_seconds(w->seconds, o);
    bad = bad != 0 ? bad : parse_bind(w->bind, o);
    return bad != 0 ? bad : check_combination(o);
}

static options_result parse(int argc, char **argv, bench_options *o)
{
    words w = {.sizes = "4,1K,64K,1M,16M",
               .dtype = "float32",
               .op = "sum",
               .algorithm = "auto",
               .transport = transport_at(0)->name,
               .memory = "private",
               .bind = "core"};
    char list[TRANSPORT_LIST_TEXT], transports[TRANSPORT_LIST_TEXT + 40];
    transport_list(list);
    snprintf(transports, sizeof transports, "how data moves: %s (%s)", list, w.transport);
    const option options[] = {
        {"-np", "N", "number of ranks (2)", OPTION_NUMBER, &o->ranks, 1, PLAN_MAX_RANKS},
        {"--sizes", "LIST", "bytes (4,1K,64K,1M,16M)", OPTION_TEXT, &w.sizes, 0, 0},
        {"--dtype", "TYPE", "type of the elements (float32)", OPTION_TEXT, &w.dtype, 0, 0},
        {"--op", "OP", "sum (default), average, adasum, min, max, product", OPTION_TEXT, &w.op, 0,
         0},
        {"--algorithm", "NAME", "instead of the one chosen by size (auto)", OPTION_TEXT,
         &w.algorithm, 0, 0},
        {"--transport", "NAME", transports, OPTION_TEXT, &w.transport, 0, 0},
        {"--memory", "KIND", "private (default), or shared: from rueda_alloc", OPTION_TEXT,
         &w.memory, 0, 0},
        {"--against", "PEER", "openmpi, mpich, gloo, socket (bare TCP); or sum, for adasum",
         OPTION_TEXT, &w.against, 0, 0},
        {"--seconds", "S", "for each size (1, with --against 3)", OPTION_TEXT, &w.seconds, 0, 0},
        {"--iterations", "N", "operations for each size, instead of a time", OPTION_NUMBER,
         &o->iterations, 1, ITERATIONS_MAX},
        {"--async", NULL, "submit and wait, instead of the blocking call", OPTION_FLAG, &o->async,
         0, 0},
        {"--idle-ms", "MS", "every rank sleeps so long before each operation", OPTION_NUMBER,
         &o->idle_ms, 1, IDLE_MAX_MS},
        {"--peer-computes", NULL, "the other ranks compute while rank 0 waits", OPTION_FLAG,
         &o->busy_peer, 0, 0},
        {"--bind", "HOW", "core (default, if there are enough) or none", OPTION_TEXT, &w.bind, 0,
         0},
        {"--json", NULL, "one object a line for each size", OPTION_FLAG, &o->json, 0, 0},
    };
    const command_line line = {.usage = usage,
                               .about = about,
                               .options = options,
                               .option_count = sizeof options / sizeof options[0],
                               .operand = &w.what};
    int next;
    const options_result result = options_parse(&line, argc, argv, &next);
    if (result != OPTIONS_GO)
        return result;
    if (next != argc)
        return options_complain("bench", "%s is one word too many; write: %s", argv[next], usage),
               OPTIONS_BAD;
    return understand(&w, o) == 0 ? OPTIONS_GO : OPTIONS_BAD;
}

/* ---- Start ----------------------------------------------------------------------------------- */

/* Ranks have no terminal, so they are told. Progress goes to stderr; where both are one terminal it
 * goes to stdout, to keep the order of lines, which take two ways through the launcher. */
static const char *progress_word(void)
{
    if (!isatty(STDERR_FILENO))
        return "quiet";
    return isatty(STDOUT_FILENO) ? "stdout" : "stderr";
}

static FILE *progress_stream(const char *word)
{
    return strcmp(word, "stdout") == 0 ? stdout : strcmp(word, "stderr") == 0 ? stderr : NULL;
}

static int start_ranks(const bench_options *o, int argc, char **argv)
{
    char board_text[64], own[PATH_MAX] = "";
    int fd;
    board *b = board_create((int)o->ranks, o->bind, &fd);
    if (b == NULL) {
        fprintf(stderr, "rueda bench: %s\n", status_text());
        return EXIT_FAILURE;
    }
    /* mpirun closes descriptors that it does not know: the board then goes by its path */
    if (o->by_mpirun)
        snprintf(board_text, sizeof board_text, "/proc/%d/fd/%d", (int)getpid(), fd);
    else
        snprintf(board_text, sizeof board_text, "%d", fd);
    const ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    char **command = calloc((size_t)argc + 5, sizeof *command);
    if (command == NULL)
        return EXIT_FAILURE;
    int used = 0;
    command[used++] = length > 0 ? own : argv[0];
    command[used++] = argv[0];
    command[used++] = WORKER;
    command[used++] = board_text;
    command[used++] = (char *)progress_word();
    for (int i = 1; i < argc; i++)
        command[used++] = argv[i];
    setenv("RUEDA_ALGORITHM", o->algorithm, 1);
    setenv("RUEDA_TRANSPORT", o->transport, 1);
    b->started_ns = world_now_ns();
    const launch_options job = {.command_name = "bench",
                                .ranks = (int)o->ranks,
                                .steps = &(launch_step){.command = command},
                                .step_count = 1,
                                .bind = LAUNCH_BIND_NONE,
                                .output = {.plain = true}};
    const int result =
        o->by_mpirun ? mpirun_become(&(mpirun_options){.launch = &job,
                                                       .program = bench_peer_launcher(o->against)})
                     : launch_job(&job);
    free(command);
    return result;
}

int bench_command(int argc, char **argv)
{
    bench_options o = {.ranks = RANKS_DEFAULT};
    const bool worker = argc > 3 && strcmp(argv[1], WORKER) == 0;
    const int board_fd = !worker ? -1 : argv[2][0] == '/' ? open(argv[2], O_RDWR) : atoi(argv[2]);
    o.progress = worker ? progress_stream(argv[3]) : NULL;
    if (worker) {
        argv[3] = argv[0];
        argv += 3;
        argc -= 3;
    }
    const options_result parsed = parse(argc, argv, &o);
    if (parsed != OPTIONS_GO)
        return options_exit_code(parsed);
    return worker ? bench_worker(&o, board_fd) : start_ranks(&o, argc, argv);
}
