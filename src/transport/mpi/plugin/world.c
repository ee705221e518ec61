/* world.c: MPI's start and end, our communicators, messages, and the table of the plug-in.
 *
 * Invariant: MPI is finalised by us only if we initialised it, only in that process, and only when it
 * exits after an orderly end: a job may be initialised again, and the application may go on with MPI.
 */
#include "transport/mpi/plugin/world.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef RUEDA_PLUGIN_VERSION
#error "say which version of rueda this is for: -DRUEDA_PLUGIN_VERSION=\"0.1.0\""
#endif
#if defined(OPEN_MPI)
#define FLAVOUR "openmpi"
#elif defined(MPICH) || defined(MPICH_VERSION) || defined(I_MPI_VERSION)
#define FLAVOUR "mpich"
#else
#error "only Open MPI and MPICH, and what has MPICH's interface, are known"
#endif

#define PART_MOST (UINT64_C(1) << 30)   /* elements; MPI counts with an int */
#define PARTING_NS UINT64_C(1000000000) /* that an orderly end waits for ranks that still work */

_Static_assert(sizeof(MPI_Request) <= sizeof(uint64_t), "a request fits into a ticket");

/* MPI is one for the process, and so is what we know of it: exit handlers have no argument. */
static struct {
    pid_t started; /* the process in which we initialised MPI; 0: the application did */
    bool whole;    /* the last job had an orderly end */
} process;

static bool refuse(char why[MPI_PLUGIN_WHY], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, MPI_PLUGIN_WHY, format, arguments);
    va_end(arguments);
    return false;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

bool world_finish(MPI_Request *request, uint64_t limit_ns)
{
    const uint64_t deadline = now_ns() + limit_ns;
    for (int done = 0;;) {
        if (MPI_Test(request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return false;
        if (done || now_ns() > deadline)
            return done;
        sched_yield();
    }
}

void world_hold(mpi_ticket *ticket, MPI_Request request)
{
    ticket->held = 0;
    memcpy(&ticket->held, &request, sizeof request);
}

MPI_Request world_held(const mpi_ticket *ticket)
{
    MPI_Request request;
    memcpy(&request, &ticket->held, sizeof request);
    return request;
}

/* ---- Start and end of MPI -------------------------------------------------------------------- */

/* A rank that ends in disorder must not wait here for others: mpirun ends them. */
static void finalise(void)
{
    int over = 1;
    if (process.started != getpid() || !process.whole)
        return;
    MPI_Finalized(&over);
    if (!over)
        MPI_Finalize();
}

/* Our calls come one at a time; a higher level costs locks in every one of them. */
static bool start_ourselves(char why[MPI_PLUGIN_WHY])
{
    int level = MPI_THREAD_SINGLE;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS)
        return refuse(why, "MPI_Init_thread failed");
    process.started = getpid();
    if (atexit(finalise) != 0)
        return refuse(why, "out of memory for an exit handler");
    return true;
}

static bool check_level(bool was_up, char why[MPI_PLUGIN_WHY])
{
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    if (level == MPI_THREAD_MULTIPLE || (process.started != 0 && level == MPI_THREAD_SERIALIZED))
        return true;
    if (!was_up)
        return refuse(why,
                      "this MPI serves no threads (level %d, MPI_THREAD_SERIALIZED is needed): "
                      "use one that was built with them, or RUEDA_TRANSPORT=tcp",
                      level);
    return refuse(why,
                  "the application initialised MPI for a single thread, and rueda has its own: "
                  "ask MPI_Init_thread for MPI_THREAD_MULTIPLE, or call rueda_init first");
}

static bool start_mpi(const mpi_terms *terms, char why[MPI_PLUGIN_WHY])
{
    int up = 0, over = 0;
    MPI_Initialized(&up);
    MPI_Finalized(&over);
    if (over)
        return refuse(why, "MPI has been finalised in this process and cannot be used again: call "
                           "rueda_init before MPI_Finalize, or say RUEDA_TRANSPORT=tcp");
    if (!up && terms->communicator != NULL)
        return refuse(why,
                      "a communicator was given and MPI is not initialised: call MPI_Init_thread "
                      "first");
    if (!up && !start_ourselves(why))
        return false;
    return check_level(up != 0, why);
}

/* ---- Communicators --------------------------------------------------------------------------- */

/* Errors come back to us instead of ending the process. */
static bool copy_communicator(MPI_Comm from, MPI_Comm *to, uint64_t limit_ns)
{
    MPI_Request request;
    MPI_Comm made;
    if (MPI_Comm_idup(from, &made, &request) != MPI_SUCCESS || !world_finish(&request, limit_ns))
        return false;
    MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
    *to = made;
    return true;
}

/* The first is made of the application's, all others of ours. */
static bool make_communicators(mpi_world *w, MPI_Comm from, const mpi_terms *terms)
{
    if (!copy_communicator(from, &w->comm, terms->limit_ns))
        return false;
    for (; w->lane_count < terms->lanes; w->lane_count++) {
        if (!copy_communicator(w->comm, &w->lanes[w->lane_count].comm, terms->limit_ns))
            return false;
    }
    return true;
}

static bool open_world(const mpi_terms *terms, mpi_world **world, int *rank, int *size,
                       char why[MPI_PLUGIN_WHY])
{
    MPI_Comm from = MPI_COMM_WORLD;
    if (!start_mpi(terms, why))
        return false;
    process.whole = false;
    if (terms->communicator != NULL)
        memcpy(&from, terms->communicator, sizeof from);
    if (from == MPI_COMM_NULL)
        return refuse(why, "the communicator given to rueda_init is MPI_COMM_NULL");
    mpi_world *w = calloc(1, sizeof *w + terms->lanes * sizeof w->lanes[0]);
    if (w == NULL)
        return refuse(why, "out of memory");
    operators_use(terms->reduce);
    w->part_most = terms->part_most > 0 ? terms->part_most : PART_MOST;
    if (!make_communicators(w, from, terms)) {
        free(w); /* what was begun cannot be taken back: the communicators stay */
        return refuse(why,
                      "the ranks did not all come within %.0f s to make communicators: see why "
                      "some did not start, or raise RUEDA_START_TIMEOUT",
                      (double)terms->limit_ns / 1e9);
    }
    MPI_Comm_rank(w->comm, &w->rank);
    MPI_Comm_size(w->comm, &w->size);
    *rank = w->rank;
    *size = w->size;
    *world = w;
    return true;
}

/* When all ranks have come to their end nothing is on its way. Otherwise the communicators stay: giving
 * them back takes all ranks. */
static void close_world(mpi_world *w, bool whole)
{
    int over = 1;
    MPI_Request parting;
    MPI_Finalized(&over);
    const bool together = !over && whole && MPI_Ibarrier(w->comm, &parting) == MPI_SUCCESS &&
                          world_finish(&parting, PARTING_NS);
    for (uint32_t i = 0; together && i < w->lane_count; i++)
        MPI_Comm_free(&w->lanes[i].comm);
    if (together)
        MPI_Comm_free(&w->comm);
    if (!over)
        operators_free();
    process.whole = whole;
    free(w);
}

static bool broadcast(mpi_world *w, void *data, int bytes, uint64_t limit_ns)
{
    MPI_Request request;
    return MPI_Ibcast(data, bytes, MPI_BYTE, 0, w->comm, &request) == MPI_SUCCESS &&
           world_finish(&request, limit_ns);
}

/* The least of the values is also the largest: the least of their complements says so. */
static bool compare(mpi_world *w, uint64_t value, bool *alike, uint64_t limit_ns)
{
    const uint64_t both[2] = {value, ~value};
    uint64_t least[2];
    MPI_Request request;
    if (MPI_Iallreduce(both, least, 2, MPI_UINT64_T, MPI_MIN, w->comm, &request) != MPI_SUCCESS ||
        !world_finish(&request, limit_ns))
        return false;
    *alike = least[0] == ~least[1];
    return true;
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* Synchronous: a sender that has nothing under way owes MPI nothing, and may stop calling it. It also
 * keeps a reader that does not read from being flooded. */
static bool start_send(mpi_world *w, int peer, int tag, const void *data, int bytes,
                       mpi_ticket *ticket)
{
    MPI_Request request;
    if (MPI_Issend(data, bytes, MPI_BYTE, peer, tag, w->comm, &request) != MPI_SUCCESS)
        return false;
    world_hold(ticket, request);
    return true;
}

static bool start_receive(mpi_world *w, int peer, int tag, void *to, int bytes, mpi_ticket *ticket)
{
    MPI_Request request;
    if (MPI_Irecv(to, bytes, MPI_BYTE, peer, tag, w->comm, &request) != MPI_SUCCESS)
        return false;
    world_hold(ticket, request);
    return true;
}

static int test(mpi_ticket *ticket, size_t *bytes)
{
    MPI_Request request = world_held(ticket);
    MPI_Status status;
    int done = 0, count = 0;
    if (MPI_Test(&request, &done, &status) != MPI_SUCCESS)
        return -1;
    world_hold(ticket, request);
    if (!done)
        return 0;
    if (MPI_Get_count(&status, MPI_BYTE, &count) == MPI_SUCCESS && count > 0)
        *bytes = (size_t)count;
    else
        *bytes = 0;
    return 1;
}

static bool cancel(mpi_ticket *ticket)
{
    MPI_Request request = world_held(ticket);
    int over = 1;
    MPI_Finalized(&over);
    return !over && MPI_Cancel(&request) == MPI_SUCCESS && world_finish(&request, PARTING_NS);
}

static void poll_mpi(mpi_world *w)
{
    int found, over = 1;
    MPI_Finalized(&over);
    if (!over)
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, w->comm, &found, MPI_STATUS_IGNORE);
}

static const char *library(void)
{
    static char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    if (text[0] == '\0')
        MPI_Get_library_version(text, &length);
    return text;
}

RUEDA_API const mpi_plugin rueda_mpi_plugin;
const mpi_plugin rueda_mpi_plugin = {
    .interface = MPI_PLUGIN_INTERFACE,
    .version = RUEDA_PLUGIN_VERSION,
    .flavour = FLAVOUR,
    .library = library,
    .open = open_world,
    .close = close_world,
    .broadcast = broadcast,
    .compare = compare,
    .send = start_send,
    .receive = start_receive,
    .allreduce = lanes_allreduce,
    .spread = lanes_spread,
    .test = test,
    .test_lane = lanes_test,
    .cancel = cancel,
    .poll = poll_mpi,
};
