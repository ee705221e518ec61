/* operators.c: types and operations in MPI's words. What MPI does not define as we do is our own
 * arithmetic behind an MPI_Op: f16 and bf16; BOOL; the least and the largest of floating values, where a
 * NaN must win; and small integers, whose sums do not wrap in every MPI. */
#include "transport/mpi/plugin/world.h"

/* An MPI_Op has no argument of its own, so there is a function for each type and operation, and the
 * arithmetic they call is the process's. It is the same in all generations. */
static mpi_reduce *const (*kernels)[MPI_PLUGIN_OPS];
static MPI_Op made[RUEDA_DTYPE_COUNT][MPI_PLUGIN_OPS];
static bool is_made[RUEDA_DTYPE_COUNT][MPI_PLUGIN_OPS];

#define OURS(dtype, op)                                                                            \
    static void dtype##_##op(void *in, void *inout, int *count, MPI_Datatype *type)                \
    {                                                                                              \
        (void)type;                                                                                \
        kernels[RUEDA_##dtype][MPI_PLUGIN_##op](inout, in, inout, (size_t)*count);                 \
    }
#define OURS_ALL(dtype) OURS(dtype, SUM) OURS(dtype, MIN) OURS(dtype, MAX) OURS(dtype, PRODUCT)
OURS_ALL(BOOL)
OURS_ALL(U8)
OURS_ALL(I8)
OURS_ALL(U16)
OURS_ALL(I16)
OURS_ALL(F16)
OURS_ALL(BF16)
OURS(F32, MIN)
OURS(F32, MAX)
OURS(F64, MIN)
OURS(F64, MAX)

#define ROW(dtype)                                                                                 \
    [RUEDA_##dtype] = {[MPI_PLUGIN_SUM] = dtype##_SUM,                                             \
                       [MPI_PLUGIN_MIN] = dtype##_MIN,                                             \
                       [MPI_PLUGIN_MAX] = dtype##_MAX,                                             \
                       [MPI_PLUGIN_PRODUCT] = dtype##_PRODUCT}
static MPI_User_function *const ours[RUEDA_DTYPE_COUNT][MPI_PLUGIN_OPS] = {
    ROW(BOOL),
    ROW(U8),
    ROW(I8),
    ROW(U16),
    ROW(I16),
    ROW(F16),
    ROW(BF16),
    [RUEDA_F32] = {[MPI_PLUGIN_MIN] = F32_MIN, [MPI_PLUGIN_MAX] = F32_MAX},
    [RUEDA_F64] = {[MPI_PLUGIN_MIN] = F64_MIN, [MPI_PLUGIN_MAX] = F64_MAX},
};

void operators_use(mpi_reduce *const (*reduce)[MPI_PLUGIN_OPS])
{
    kernels = reduce;
}

/* Not a table: MPI's handles need not be constants. */
MPI_Datatype operators_type(rueda_dtype dtype)
{
    switch (dtype) {
    case RUEDA_I8:
        return MPI_INT8_T;
    case RUEDA_I16:
        return MPI_INT16_T;
    case RUEDA_I32:
        return MPI_INT32_T;
    case RUEDA_I64:
        return MPI_INT64_T;
    case RUEDA_F32:
        return MPI_FLOAT;
    case RUEDA_F64:
        return MPI_DOUBLE;
    case RUEDA_U16:
    case RUEDA_F16:
    case RUEDA_BF16:
        return MPI_UINT16_T;
    case RUEDA_BOOL:
    case RUEDA_U8:
        break;
    }
    return MPI_UINT8_T;
}

static MPI_Op predefined(int op)
{
    if (op == MPI_PLUGIN_SUM)
        return MPI_SUM;
    if (op == MPI_PLUGIN_PRODUCT)
        return MPI_PROD;
    return op == MPI_PLUGIN_MIN ? MPI_MIN : MPI_MAX;
}

MPI_Op operators_find(rueda_dtype dtype, int op)
{
    if (ours[dtype][op] == NULL)
        return predefined(op);
    if (!is_made[dtype][op]) {
        if (MPI_Op_create(ours[dtype][op], 1, &made[dtype][op]) != MPI_SUCCESS)
            return MPI_OP_NULL;
        is_made[dtype][op] = true;
    }
    return made[dtype][op];
}

void operators_free(void)
{
    for (int d = 0; d < RUEDA_DTYPE_COUNT; d++) {
        for (int op = 0; op < MPI_PLUGIN_OPS; op++) {
            if (is_made[d][op])
                MPI_Op_free(&made[d][op]);
            is_made[d][op] = false;
        }
    }
}
