/* lanes.c: whole collectives, one at a time on each lane, in parts that MPI's int can count. */
#include "transport/mpi/plugin/world.h"

static bool start_part(const mpi_world *w, mpi_lane *l, mpi_ticket *ticket)
{
    MPI_Request request;
    int size = 1, result;
    const uint64_t part = l->left < w->part_most ? l->left : w->part_most;
    if (l->op == MPI_OP_NULL)
        result = MPI_Ibcast(l->data, (int)part, l->type, l->root, l->comm, &request);
    else
        result = MPI_Iallreduce(l->in == NULL ? MPI_IN_PLACE : l->in, l->data, (int)part, l->type,
                                l->op, l->comm, &request);
    if (result != MPI_SUCCESS)
        return false;
    world_hold(ticket, request);
    MPI_Type_size(l->type, &size);
    l->left -= part;
    l->data += part * (uint64_t)size;
    if (l->in != NULL)
        l->in += part * (uint64_t)size;
    return true;
}

bool lanes_allreduce(mpi_world *w, uint32_t lane, const void *in, void *data, uint64_t count,
                     rueda_dtype dtype, int op, mpi_ticket *ticket)
{
    mpi_lane *l = &w->lanes[lane];
    l->in = in;
    l->data = data;
    l->left = count;
    l->type = operators_type(dtype);
    l->op = operators_find(dtype, op);
    return l->op != MPI_OP_NULL && start_part(w, l, ticket);
}

bool lanes_spread(mpi_world *w, uint32_t lane, void *data, uint64_t bytes, int root,
                  mpi_ticket *ticket)
{
    mpi_lane *l = &w->lanes[lane];
    l->in = NULL;
    l->data = data;
    l->left = bytes;
    l->type = MPI_BYTE;
    l->op = MPI_OP_NULL;
    l->root = root;
    return start_part(w, l, ticket);
}

int lanes_test(mpi_world *w, uint32_t lane, mpi_ticket *ticket)
{
    MPI_Request request = world_held(ticket);
    int done = 0;
    if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return -1;
    world_hold(ticket, request);
    if (!done || w->lanes[lane].left == 0)
        return done != 0;
    return start_part(w, &w->lanes[lane], ticket) ? 0 : -1;
}
