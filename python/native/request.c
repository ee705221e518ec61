/* request.c: pending operations as objects.
 *
 * A wait lets other threads of the interpreter run, and comes back every WAIT_SLICE_MS to see whether a
 * signal (Ctrl-C) has arrived. A request that is dropped while pending becomes an orphan: it keeps its
 * tensors alive until it has ended.
 */
#include "native.h"

#include <stdlib.h>

#define WAIT_SLICE_MS 50

typedef struct request {
    PyObject_HEAD
    native *state; /* lives as long as the module, which is never unloaded */
    rueda_request *request;
    PyObject *keep; /* what the engine may touch; NULL when the request has ended */
    rueda_dtype dtype;
} request;

struct orphan {
    struct orphan *next;
    rueda_request *request;
    PyObject *keep;
};

void request_reap(native *state)
{
    struct orphan **link = &state->orphans;
    while (*link != NULL) {
        struct orphan *o = *link;
        if (!rueda_poll(o->request)) {
            link = &o->next;
            continue;
        }
        *link = o->next;
        rueda_request_free(o->request);
        Py_DECREF(o->keep);
        free(o);
    }
}

PyObject *request_wrap(native *state, rueda_request *pending, PyObject *keep, rueda_dtype dtype)
{
    request *self = PyObject_New(request, state->request_type);
    if (self == NULL) {
        rueda_wait(pending, -1);
        rueda_request_free(pending);
        Py_DECREF(keep);
        return NULL;
    }
    self->state = state;
    self->request = pending;
    self->keep = keep;
    self->dtype = dtype;
    return (PyObject *)self;
}

bool request_wait(native *state, rueda_request *pending, double seconds, rueda_status *status)
{
    double left_ms = seconds < 0 ? -1 : seconds * 1000;
    for (;;) {
        if (state->closing) {
            PyErr_SetString(state->error, "shutdown was called while this thread waited");
            return false;
        }
        const int64_t slice =
            left_ms >= 0 && left_ms < WAIT_SLICE_MS ? (int64_t)left_ms : WAIT_SLICE_MS;
        state->waiting++;
        Py_BEGIN_ALLOW_THREADS
        *status = rueda_wait(pending, slice);
        Py_END_ALLOW_THREADS
        state->waiting--;
        if (*status != RUEDA_PENDING)
            return true;
        if (PyErr_CheckSignals() != 0)
            return false;
        if (left_ms >= 0 && (left_ms -= (double)slice) <= 0)
            return true;
    }
}

static PyObject *wait_method(PyObject *object, PyObject *args)
{
    request *self = (request *)object;
    double seconds = -1;
    rueda_status status;
    if (!PyArg_ParseTuple(args, "|d:wait", &seconds))
        return NULL;
    if (!request_wait(self->state, self->request, seconds, &status))
        return NULL;
    if (status == RUEDA_PENDING)
        Py_RETURN_FALSE;
    Py_CLEAR(self->keep);
    if (status != RUEDA_OK)
        return native_raise(self->state, status);
    Py_RETURN_TRUE;
}

static PyObject *poll_method(PyObject *object, PyObject *unused)
{
    (void)unused;
    return PyBool_FromLong(rueda_poll(((request *)object)->request));
}

/* A tuple of the received splits. */
static PyObject *list_splits(const rueda_output *output)
{
    PyObject *splits = PyTuple_New(output->received_count);
    for (int32_t i = 0; i < output->received_count && splits != NULL; i++)
        PyTuple_SetItem(splits, i, PyLong_FromLongLong(output->received_splits[i]));
    return splits;
}

static PyObject *output_method(PyObject *object, PyObject *unused)
{
    (void)unused;
    request *self = (request *)object;
    rueda_output output;
    const rueda_status status = rueda_take_output(self->request, &output);
    if (status != RUEDA_OK)
        return native_raise(self->state, status);
    PyObject *splits = list_splits(&output);
    PyObject *shape = PyTuple_New(output.ndim);
    for (int32_t i = 0; i < output.ndim && shape != NULL; i++)
        PyTuple_SetItem(shape, i, PyLong_FromLongLong(output.shape[i]));
    /* a flat tensor of bytes serves every framework, whatever types it knows */
    output.ndim = 1;
    output.shape[0] = (int64_t)output.bytes;
    PyObject *capsule = splits == NULL || shape == NULL ? NULL : tensor_capsule(&output, RUEDA_U8);
    if (capsule == NULL) {
        Py_XDECREF(splits);
        Py_XDECREF(shape);
        return NULL;
    }
    return Py_BuildValue("(NNN)", capsule, shape, splits);
}

static PyObject *output_bytes_method(PyObject *object, PyObject *unused)
{
    (void)unused;
    request *self = (request *)object;
    rueda_output output;
    const rueda_status status = rueda_take_output(self->request, &output);
    if (status != RUEDA_OK)
        return native_raise(self->state, status);
    PyObject *bytes = PyBytes_FromStringAndSize(output.data, (Py_ssize_t)output.bytes);
    rueda_output_free(&output);
    return bytes;
}

static void dealloc(PyObject *object)
{
    request *self = (request *)object;
    PyTypeObject *type = Py_TYPE(object);
    struct orphan *left = NULL;
    if (self->keep != NULL && !rueda_poll(self->request) && (left = malloc(sizeof *left)) != NULL) {
        *left = (struct orphan){self->state->orphans, self->request, self->keep};
        self->state->orphans = left;
    } else {
        rueda_request_free(self->request);
        Py_XDECREF(self->keep);
    }
    PyObject_Free(self);
    Py_DECREF((PyObject *)type);
}

static PyMethodDef methods[] = {
    {"wait", wait_method, METH_VARARGS,
     "wait(seconds=-1) -> bool\n\nBlocks until the operation has ended, without the interpreter's "
     "lock, at most so many seconds (negative: no limit). False: the time is up, wait again. Raises "
     "what the operation has ended with; Ctrl-C interrupts."},
    {"poll", poll_method, METH_NOARGS,
     "poll() -> bool\n\nWhether the operation has ended. Never blocks."},
    {"output", output_method, METH_NOARGS,
     "output() -> (capsule, shape, received_splits)\n\nThe output that the library has allocated, once: "
     "its bytes as a DLPack capsule, its shape, and for alltoall the rows received from each rank."},
    {"output_bytes", output_bytes_method, METH_NOARGS,
     "output_bytes() -> bytes\n\nThe same, copied."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot slots[] = {{Py_tp_dealloc, dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_doc, "A pending operation; made by the submit functions."},
                              {0, NULL}};

PyType_Spec request_spec = {.name = "rueda._native.Request",
                            .basicsize = sizeof(request),
                            .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                            .slots = slots};
