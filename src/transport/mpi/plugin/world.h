/* world.h: between the files of the plug-in. */
#ifndef RUEDA_TRANSPORT_MPI_PLUGIN_WORLD_H
#define RUEDA_TRANSPORT_MPI_PLUGIN_WORLD_H

#include "transport/mpi/plugin.h"

#include <mpi.h>

/* A collective that is done in parts, since MPI counts with an int. */
typedef struct mpi_lane {
    MPI_Comm comm;
    const uint8_t *in; /* NULL: in place */
    uint8_t *data;
    uint64_t left; /* elements that are not started */
    MPI_Datatype type;
    MPI_Op op; /* MPI_OP_NULL: a broadcast */
    int root;
} mpi_lane;

struct mpi_world {
    MPI_Comm comm; /* of messages */
    int rank, size;
    uint64_t part_most;
    uint32_t lane_count;
    mpi_lane lanes[];
};

/* Waits at most limit_ns. */
bool world_finish(MPI_Request *request, uint64_t limit_ns);
void world_hold(mpi_ticket *ticket, MPI_Request request);
MPI_Request world_held(const mpi_ticket *ticket);

/* operators.c: how MPI combines a type. reduce: see mpi_terms. */
void operators_use(mpi_reduce *const (*reduce)[MPI_PLUGIN_OPS]);
MPI_Datatype operators_type(rueda_dtype dtype);
MPI_Op operators_find(rueda_dtype dtype, int op); /* MPI_OP_NULL: MPI refused */
void operators_free(void);

/* lanes.c: the collectives of the table. */
bool lanes_allreduce(mpi_world *w, uint32_t lane, const void *in, void *data, uint64_t count,
                     rueda_dtype dtype, int op, mpi_ticket *ticket);
bool lanes_spread(mpi_world *w, uint32_t lane, void *data, uint64_t bytes, int root,
                  mpi_ticket *ticket);
int lanes_test(mpi_world *w, uint32_t lane, mpi_ticket *ticket);

#endif
