/* plugin.h: what lies between the library and librueda-mpi-FLAVOUR.so.
 *
 * The library knows no MPI type: Open MPI and MPICH give them different sizes and values. The plug-in is
 * compiled by the MPI's own mpicc, from the files in plugin/, this header and rueda.h alone, and gives
 * one table. All of a plug-in's calls come from one thread at a time; none blocks unless it has a
 * deadline. Whoever changes this file raises MPI_PLUGIN_INTERFACE.
 */
#ifndef RUEDA_TRANSPORT_MPI_PLUGIN_H
#define RUEDA_TRANSPORT_MPI_PLUGIN_H

#include "rueda.h"

#include <stdbool.h>

#define MPI_PLUGIN_INTERFACE 1
#define MPI_PLUGIN_SYMBOL "rueda_mpi_plugin"
#define MPI_PLUGIN_WHY 400 /* bytes of a sentence */

typedef struct mpi_world mpi_world; /* the plug-in's part of one generation of a job */

/* A message or collective under way; `held` is the plug-in's. */
typedef struct mpi_ticket {
    uint64_t held;
} mpi_ticket;

/* As kernel_op, which a plug-in does not see. */
enum mpi_op { MPI_PLUGIN_SUM, MPI_PLUGIN_MIN, MPI_PLUGIN_MAX, MPI_PLUGIN_PRODUCT, MPI_PLUGIN_OPS };

/* dst ← a ∘ b, as in kernel_table. */
typedef void mpi_reduce(void *dst, const void *a, const void *b, size_t count);

typedef struct mpi_terms {
    const void *communicator; /* where an MPI_Comm of the application lies; NULL: MPI_COMM_WORLD */
    uint32_t lanes;           /* collectives that may be under way at the same time */
    uint64_t limit_ns;        /* for all ranks to come, once MPI is initialised */
    mpi_reduce *const (*reduce)[MPI_PLUGIN_OPS]; /* by type; outlives the process's last call */
    uint64_t part_most; /* elements that go with one call of MPI; 0: as many as it can count */
} mpi_terms;

typedef struct mpi_plugin {
    uint32_t interface;           /* MPI_PLUGIN_INTERFACE; what follows may be read if it is ours */
    const char *version;          /* of rueda */
    const char *flavour;          /* "openmpi", "mpich" */
    const char *(*library)(void); /* MPI's own words about its version; static */

    /* Initialises MPI unless that was done, and makes communicators of our own. All ranks of the
     * communicator call it. MPI_Init itself has no time limit. False: *why says what and what to do. */
    bool (*open)(const mpi_terms *terms, mpi_world **world, int *rank, int *size,
                 char why[MPI_PLUGIN_WHY]);
    /* Gives the communicators back; MPI itself stays, for the next generation and the application.
     * `whole`: the job is not broken; waits for the other ranks a little, so that nothing of ours is
     * left on its way, and lets MPI be finalised when the process exits, if open initialised it. */
    void (*close)(mpi_world *world, bool whole);

    /* From rank 0 to all; and whether all ranks gave the same value. False: the time was up. */
    bool (*broadcast)(mpi_world *world, void *data, int bytes, uint64_t limit_ns);
    bool (*compare)(mpi_world *world, uint64_t value, bool *alike, uint64_t limit_ns);

    /* Starts a message. The memory is the plug-in's until the ticket is done. A send is done when
     * the other side has begun to receive it. False: MPI refused. */
    bool (*send)(mpi_world *world, int peer, int tag, const void *data, int bytes,
                 mpi_ticket *ticket);
    bool (*receive)(mpi_world *world, int peer, int tag, void *to, int bytes, mpi_ticket *ticket);
    /* Starts to combine `count` elements of all ranks; `in` NULL: `data` is also the input. A count of
     * any size: done in parts. Alike and in the same order on all ranks of a lane; one at a time. */
    bool (*allreduce)(mpi_world *world, uint32_t lane, const void *in, void *data, uint64_t count,
                      rueda_dtype dtype, int op, mpi_ticket *ticket);
    /* Starts to copy bytes of `root` to all. */
    bool (*spread)(mpi_world *world, uint32_t lane, void *data, uint64_t bytes, int root,
                   mpi_ticket *ticket);
    /* 1: done, *bytes of a receive have come; 0: not yet; -1: failed. */
    int (*test)(mpi_ticket *ticket, size_t *bytes);
    /* The same of a collective, whose next part it starts. */
    int (*test_lane)(mpi_world *world, uint32_t lane, mpi_ticket *ticket);
    /* Takes a receive back. True: nothing will be written to its memory any more. */
    bool (*cancel)(mpi_ticket *ticket);
    /* Lets MPI work on what it has not finished. */
    void (*poll)(mpi_world *world);
} mpi_plugin;

#endif
