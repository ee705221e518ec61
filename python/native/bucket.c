/* bucket.c: some gradients that travel together, in one tensor. */
#include "reducer.h"

#include <string.h>

bool bucket_make(native *state, bucket *b, PyObject *row)
{
    const char *name;
    PyObject *flat, *options[5];
    if (!PyArg_ParseTuple(row, "OsOOOOO", &flat, &name, &options[0], &options[1], &options[2],
                          &options[3], &options[4]) ||
        !native_read_options(options, &b->options))
        return false;
    Py_INCREF(flat);
    b->pending = pending_new(flat);
    if (b->pending == NULL)
        return false;
    strncpy(b->name, name, RUEDA_MAX_NAME);
    if (flat != Py_None && !tensor_read(state, flat, &b->info))
        return false;
    b->info.tensor.name = b->name;
    return true;
}

void bucket_write_flag(const bucket *b, char *flag, bool present)
{
    const uint16_t half = present ? 0x3C00 : 0, brain = present ? 0x3F80 : 0;
    const float single = present;
    const double large = present;
    switch (b->info.tensor.dtype) {
    case RUEDA_F16:
        memcpy(flag, &half, sizeof half);
        break;
    case RUEDA_BF16:
        memcpy(flag, &brain, sizeof brain);
        break;
    case RUEDA_F64:
        memcpy(flag, &large, sizeof large);
        break;
    default:
        memcpy(flag, &single, sizeof single);
        break;
    }
}

bool bucket_flag_is_zero(const bucket *b, const char *flag)
{
    static const char zeros[sizeof(double)] = {0};
    return memcmp(flag, zeros, rueda_dtype_bytes(b->info.tensor.dtype)) == 0;
}

bool bucket_submit(native *state, bucket *b)
{
    const rueda_status status = rueda_allreduce(&b->info.tensor, &b->options, &b->pending->request);
    if (status != RUEDA_OK)
        native_raise(state, status);
    return status == RUEDA_OK;
}

bool bucket_end(native *state, bucket *b, rueda_status *first, char sentence[SENTENCE_BYTES])
{
    rueda_request **request = &b->pending->request;
    rueda_status status;
    if (*request == NULL)
        return true;
    if (!request_wait(state, *request, -1, &status))
        return false;
    if (status != RUEDA_OK && *first == RUEDA_OK) {
        *first = status;
        strncpy(sentence, rueda_error(), SENTENCE_BYTES - 1);
    }
    rueda_request_free(*request);
    *request = NULL;
    return true;
}

void bucket_release(native *state, bucket *b)
{
    pending_drop(state, b->pending);
}
