/* macros.c: expands every macro of rueda.h, as C and as C++. Only compiled, never run. */
#include <rueda.h>

#ifndef RUEDA_H
#error "RUEDA_H"
#endif

#define COUNT_STATUS(name, value, scope, sentence) +(sizeof sentence > 1)
#define COUNT_DTYPE(name, value, bytes, text) +(sizeof text > 1)
#define COUNT_OP(name, value, text) +(sizeof text > 1)

extern const int version[], limits[], counts[];
const int version[] = {RUEDA_VERSION_MAJOR, RUEDA_VERSION_MINOR, RUEDA_VERSION_PATCH};
const int limits[] = {RUEDA_MAX_NAME, RUEDA_MAX_DIMS, RUEDA_MAX_SETS, RUEDA_ANY_RANK};
const int counts[] = {0 RUEDA_STATUS_LIST(COUNT_STATUS), 0 RUEDA_DTYPE_LIST(COUNT_DTYPE),
                      0 RUEDA_OP_LIST(COUNT_OP)};

/* A list and its count agree, or an array has a negative length. */
typedef char dtypes_agree[(0 RUEDA_DTYPE_LIST(COUNT_DTYPE)) == RUEDA_DTYPE_COUNT ? 1 : -1];
typedef char ops_agree[(0 RUEDA_OP_LIST(COUNT_OP)) == RUEDA_OP_COUNT ? 1 : -1];

/* The macros that make the enumerations stay defined. */
enum status_again {
#define AGAIN(name, value, scope, sentence) AGAIN_##name = RUEDA_##name,
    RUEDA_STATUS_LIST(AGAIN)
};
#define COUNT_ENUM_STATUS(n, v, s, t) RUEDA_STATUS_ENUM(n##_AGAIN, v, s, t)
#define COUNT_ENUM_DTYPE(n, v, b, t) RUEDA_DTYPE_ENUM(n##_AGAIN, v, b, t)
#define COUNT_ENUM_OP(n, v, t) RUEDA_OP_ENUM(n##_AGAIN, v, t)
enum all_again {
    RUEDA_STATUS_LIST(COUNT_ENUM_STATUS) RUEDA_DTYPE_LIST(COUNT_ENUM_DTYPE)
        RUEDA_OP_LIST(COUNT_ENUM_OP)
};

RUEDA_API int expand(float *data, const int64_t *shape);

int expand(float *data, const int64_t *shape)
{
    rueda_tensor tensor = RUEDA_TENSOR("name", data, RUEDA_F32, 1, shape);
    rueda_options options = RUEDA_OPTIONS(RUEDA_SUM);
    rueda_members members = RUEDA_MEMBERS;
    tensor = RUEDA_TENSOR(NULL, data, RUEDA_F64, 2, shape);
    options = RUEDA_OPTIONS(RUEDA_ADASUM);
    options.process_set = RUEDA_GLOBAL_SET;
    rueda_output output = RUEDA_OUTPUT;
    rueda_init_options init =
        RUEDA_COMPOUND(rueda_init_options){sizeof init, 0, NULL, NULL, NULL, NULL, NULL, 0};
    return rueda_init(&init) == RUEDA_OK && rueda_allreduce(&tensor, &options, NULL) == RUEDA_OK &&
           tensor.struct_size + options.struct_size + output.struct_size + members.struct_size > 0;
}
