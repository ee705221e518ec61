/* dtype.c: names and sizes of the public types and operations, from the lists in rueda.h. */
#include "rueda.h"

const char *rueda_dtype_name(rueda_dtype dtype)
{
    switch (dtype) {
#define DTYPE_NAME_CASE(name, value, bytes, text)                                                  \
    case RUEDA_##name:                                                                             \
        return text;
        RUEDA_DTYPE_LIST(DTYPE_NAME_CASE)
    }
    return "?";
}

size_t rueda_dtype_bytes(rueda_dtype dtype)
{
    switch (dtype) {
#define DTYPE_BYTES_CASE(name, value, bytes, text)                                                 \
    case RUEDA_##name:                                                                             \
        return bytes;
        RUEDA_DTYPE_LIST(DTYPE_BYTES_CASE)
    }
    return 0;
}

const char *rueda_op_name(rueda_op op)
{
    switch (op) {
#define OP_NAME_CASE(name, value, text)                                                            \
    case RUEDA_##name:                                                                             \
        return text;
        RUEDA_OP_LIST(OP_NAME_CASE)
    }
    return "?";
}
