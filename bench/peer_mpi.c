/* peer_mpi.c: one rank of an MPI job that rueda bench measures against: rueda-peer-openmpi and
 * rueda-peer-mpich are this file with different compilers.
 *
 * It joins the board of the bench as its second team, so it runs the same loop over the same data as
 * the ranks of rueda, with MPI's blocking calls. Between slices it sleeps on the board and not in
 * MPI, which would keep a core busy.
 *
 * Usage: mpirun -np N rueda-peer-… PATH_OF_THE_BOARD blocking|started
 * started: allreduce and broadcast by their non-blocking forms and MPI_Wait, as the MPI transport does.
 */
#include "cli/bench_slice.h"

#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

static MPI_Datatype type_of(rueda_dtype dtype)
{
    switch (dtype) {
    case RUEDA_U8:
        return MPI_UINT8_T;
    case RUEDA_I8:
        return MPI_INT8_T;
    case RUEDA_U16:
        return MPI_UINT16_T;
    case RUEDA_I16:
        return MPI_INT16_T;
    case RUEDA_I32:
        return MPI_INT32_T;
    case RUEDA_I64:
        return MPI_INT64_T;
    case RUEDA_F64:
        return MPI_DOUBLE;
    default:
        return MPI_FLOAT;
    }
}

static MPI_Op op_of(rueda_op op)
{
    switch (op) {
    case RUEDA_MIN:
        return MPI_MIN;
    case RUEDA_MAX:
        return MPI_MAX;
    case RUEDA_PRODUCT:
        return MPI_PROD;
    default:
        return MPI_SUM;
    }
}

static bool started; /* see above */

/* MPI_Wait would keep a core that another rank needs, but that is what a bare program does. */
static int call_started(const bench_data *d)
{
    const MPI_Datatype type = type_of(d->dtype);
    const int in = (int)d->in_count;
    MPI_Request request;
    const int result = d->collective == PLAN_ALLREDUCE
                           ? MPI_Iallreduce(MPI_IN_PLACE, d->input, in, type, op_of(d->op),
                                            MPI_COMM_WORLD, &request)
                           : MPI_Ibcast(d->input, in, type, 0, MPI_COMM_WORLD, &request);
    return result == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : result;
}

static int call(const bench_data *d)
{
    const MPI_Datatype type = type_of(d->dtype);
    const int in = (int)d->in_count, share = (int)(d->in_count / (uint64_t)d->size);
    const int out = (int)d->out_count;
    switch (d->collective) {
    case PLAN_ALLREDUCE:
        return MPI_Allreduce(MPI_IN_PLACE, d->input, in, type, op_of(d->op), MPI_COMM_WORLD);
    case PLAN_ALLGATHER:
        return MPI_Allgather(d->input, in, type, d->output, in, type, MPI_COMM_WORLD);
    case PLAN_BROADCAST:
        return MPI_Bcast(d->input, in, type, 0, MPI_COMM_WORLD);
    case PLAN_ALLTOALL:
        return MPI_Alltoall(d->input, share, type, d->output, share, type, MPI_COMM_WORLD);
    case PLAN_REDUCESCATTER:
        return MPI_Reduce_scatter_block(d->input, d->output, share, type, op_of(d->op),
                                        MPI_COMM_WORLD);
    case PLAN_REDUCE_TO_ROOT:
        return MPI_Reduce(d->input, d->output, in, type, op_of(d->op), 0, MPI_COMM_WORLD);
    case PLAN_GATHER:
        return MPI_Gather(d->input, in, type, d->output, in, type, 0, MPI_COMM_WORLD);
    case PLAN_SCATTER:
        return MPI_Scatter(d->input, out, type, d->output, out, type, 0, MPI_COMM_WORLD);
    default:
        return MPI_Barrier(MPI_COMM_WORLD);
    }
}

static bool run(slice_engine *e, const board_order *order)
{
    (void)order;
    const bool can_start =
        e->data.collective == PLAN_ALLREDUCE || e->data.collective == PLAN_BROADCAST;
    if ((started && can_start ? call_started : call)(&e->data) == MPI_SUCCESS)
        return true;
    board_fail(e->board, e->team, "an MPI call failed");
    return false;
}

int main(int argc, char **argv)
{
    int rank, size;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a sleeper would not notice that the job is gone */
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int fd = argc == 3 ? open(argv[1], O_RDWR | O_CLOEXEC) : -1;
    board *b = fd >= 0 ? board_map(fd) : NULL;
    if (b == NULL || b->size != size) {
        fprintf(stderr, "%s is started by rueda bench --against\n", argv[0]);
        MPI_Abort(MPI_COMM_WORLD, 2);
        return 2;
    }
    started = strcmp(argv[2], "started") == 0;
    board_bind(b, rank);
    slice_engine engine = {.board = b,
                           .team = BOARD_PEER,
                           .rank = rank,
                           .data = {.rank = rank, .size = size},
                           .allocate = slice_allocate,
                           .release = slice_release,
                           .run = run};
    const bool ok = slice_serve(&engine);
    if (!ok)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Finalize();
    return !ok;
}
