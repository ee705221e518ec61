/* mpi_program.c: a program that uses MPI and rueda, in the way its first argument names (mpi_cases.sh).
 * Prints "went-well" on success; what went wrong goes to stderr, exit code 1. */
#include "rueda.h"
#include "transport/mpi/plugin.h"

#include <dlfcn.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, rueda_error());             \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static const char *argument; /* the program's second, or NULL */

/* The sum over the ranks, each giving its rank + 1. */
static float sum_of_ranks(void)
{
    float value = (float)rueda_rank() + 1;
    const int64_t shape[] = {1};
    const rueda_tensor tensor = RUEDA_TENSOR("value", &value, RUEDA_F32, 1, shape);
    const rueda_options options = RUEDA_OPTIONS(RUEDA_SUM);
    CHECK(rueda_allreduce(&tensor, &options, NULL) == RUEDA_OK);
    return value;
}

static void check_sum(void)
{
    const int size = rueda_size();
    CHECK(sum_of_ranks() == (float)(size * (size + 1) / 2));
}

/* Init and shutdown, again and again: MPI stays. */
static void plain(void)
{
    for (int generation = 0; generation < 3; generation++) {
        CHECK(rueda_init(NULL) == RUEDA_OK);
        check_sum();
        CHECK(rueda_shutdown() == RUEDA_OK);
    }
}

/* The application's MPI works before, beside and after ours. */
static void beside(void)
{
    int level, rank, sum = 0, over = 1;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    CHECK(level == MPI_THREAD_MULTIPLE);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    CHECK(rueda_init(NULL) == RUEDA_OK && rueda_rank() == rank);
    check_sum();
    MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == rueda_size());
    check_sum();
    CHECK(rueda_shutdown() == RUEDA_OK);
    MPI_Finalized(&over);
    CHECK(!over);
    MPI_Allreduce(&(int){2}, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
}

/* Two jobs at once: even and odd ranks, each in the opposite order. */
static void communicators(void)
{
    int level, rank, size, index;
    MPI_Comm half;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    MPI_Comm_rank(half, &index);
    const rueda_init_options options = {.struct_size = sizeof options, .mpi_communicator = &half};
    CHECK(rueda_init(&options) == RUEDA_OK);
    CHECK(rueda_rank() == index && rueda_size() == (size + 1 - rank % 2) / 2);
    check_sum();
    CHECK(rueda_shutdown() == RUEDA_OK);
    MPI_Comm_free(&half); /* still the application's */
    MPI_Finalize();
}

static void expect_refusal(const rueda_init_options *options, const char *part)
{
    CHECK(rueda_init(options) == RUEDA_ERR_CONFIG);
    fprintf(stderr, "%s\n", rueda_error());
    CHECK(strstr(rueda_error(), part) != NULL && strchr(rueda_error(), '\n') == NULL);
    CHECK(!rueda_is_initialized());
}

static void single_thread(void)
{
    int level;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SINGLE, &level);
    if (level < MPI_THREAD_MULTIPLE)
        expect_refusal(NULL, "MPI_THREAD_MULTIPLE");
    MPI_Finalize();
}

static void finalized(void)
{
    MPI_Comm world = MPI_COMM_WORLD;
    const rueda_init_options options = {.struct_size = sizeof options, .mpi_communicator = &world};
    expect_refusal(&options, "MPI is not initialised");
    MPI_Init(NULL, NULL);
    MPI_Finalize();
    expect_refusal(NULL, "finalised");
}

/* The message that the case expects. */
static void refused(void)
{
    CHECK(argument != NULL);
    expect_refusal(NULL, argument);
}

/* Both MPIs in one process. */
static void mixed(void)
{
    CHECK(argument != NULL && dlopen(argument, RTLD_NOW | RTLD_LOCAL) != NULL);
    expect_refusal(NULL, "two MPIs are loaded");
}

/* The last rank dies in the middle of an operation; the others must not wait for ever. */
static void killed(void)
{
    static float values[1 << 20];
    const int64_t shape[] = {1 << 20};
    const rueda_tensor tensor = RUEDA_TENSOR("values", values, RUEDA_F32, 1, shape);
    CHECK(rueda_init(NULL) == RUEDA_OK);
    check_sum();
    if (rueda_rank() == rueda_size() - 1)
        raise(SIGKILL);
    CHECK(rueda_allreduce(&tensor, NULL, NULL) == RUEDA_ERR_PEER);
    fprintf(stderr, "%s\n", rueda_error());
    exit(3);
}

static void add_floats(void *dst, const void *a, const void *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ((float *)dst)[i] = ((const float *)a)[i] + ((const float *)b)[i];
}

/* More than MPI can count, made small: the plug-in cuts a collective into parts. */
static void parts(void)
{
    enum { COUNT = 10007 };
    static mpi_reduce *const reduce[RUEDA_DTYPE_COUNT][MPI_PLUGIN_OPS] = {
        [RUEDA_F32] = {[MPI_PLUGIN_SUM] = add_floats}};
    static float in[COUNT], out[COUNT], spread[COUNT];
    char why[MPI_PLUGIN_WHY] = "";
    int rank, size;
    mpi_ticket ticket;
    mpi_world *world;
    void *handle = dlopen(argument, RTLD_NOW);
    const mpi_plugin *p = handle == NULL ? NULL : dlsym(handle, MPI_PLUGIN_SYMBOL);
    CHECK(p != NULL);
    const mpi_terms terms = {
        .lanes = 2, .limit_ns = UINT64_C(30000000000), .reduce = reduce, .part_most = 1000};
    CHECK(p->open(&terms, &world, &rank, &size, why));
    for (int i = 0; i < COUNT; i++) {
        in[i] = (float)(i % 1000 + rank);
        spread[i] = (float)(rank == 1 ? i : 0);
    }
    CHECK(p->allreduce(world, 1, in, out, COUNT, RUEDA_F32, MPI_PLUGIN_SUM, &ticket));
    while (p->test_lane(world, 1, &ticket) == 0)
        ;
    CHECK(p->spread(world, 0, spread, sizeof spread, 1, &ticket));
    while (p->test_lane(world, 0, &ticket) == 0)
        ;
    for (int i = 0; i < COUNT; i++)
        CHECK(out[i] == (float)(size * (i % 1000) + size * (size - 1) / 2) &&
              spread[i] == (float)i);
    p->close(world, true);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } ways[] = {
        {"plain", plain},          {"beside", beside},       {"communicators", communicators},
        {"single", single_thread}, {"finalized", finalized}, {"refused", refused},
        {"mixed", mixed},          {"parts", parts},         {"killed", killed}};
    argument = argc > 2 ? argv[2] : NULL;
    for (size_t i = 0; argc > 1 && i < sizeof ways / sizeof ways[0]; i++) {
        if (strcmp(argv[1], ways[i].name) != 0)
            continue;
        ways[i].run();
        puts("went-well");
        return 0;
    }
    return 2;
}
