/* request.c: pending operations as objects.
 *
 * A wait lets other threads of the interpreter run, and comes back every WAIT_SLICE_MS to see whether a
 * signal (Ctrl-C) has arrived. The operation of a request that is dropped meanwhile becomes an orphan: it keeps
 * its tensors alive until it has ended.
 */
#include "native.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#define WAIT_SLICE_MS 50

typedef struct request {
    PyObject_HEAD
    native *state; /* lives as long as the module, which is never unloaded */
    pending *pending;
    rueda_dtype dtype;
} request;

/* ---- Operations that run ------------------------------------------------------------------------- */

pending *pending_new(PyObject *keep)
{
    pending *p = keep == NULL ? NULL : malloc(sizeof *p);
    if (p == NULL) {
        Py_XDECREF(keep);
        if (!PyErr_Occurred())
            PyErr_NoMemory();
        return NULL;
    }
    *p = (pending){.keep = keep};
    return p;
}

static void pending_free(pending *p)
{
    rueda_request_free(p->request);
    Py_XDECREF(p->keep);
    free(p);
}

void pending_drop(native *state, pending *p)
{
    if (p == NULL)
        return;
    if (p->request == NULL || rueda_poll(p->request)) {
        pending_free(p);
        return;
    }
    p->next = state->orphans;
    state->orphans = p;
}

void request_reap(native *state)
{
    pending **link = &state->orphans;
    while (*link != NULL) {
        pending *p = *link;
        if (!rueda_poll(p->request)) {
            link = &p->next;
            continue;
        }
        *link = p->next;
        pending_free(p);
    }
}

/* ---- Requests ------------------------------------------------------------------------------------ */

PyObject *request_new(native *state, PyObject *keep, rueda_dtype dtype, rueda_request ***place)
{
    pending *p = pending_new(keep);
    request *self = p == NULL ? NULL : PyObject_New(request, state->request_type);
    if (self == NULL) {
        pending_drop(state, p);
        return NULL;
    }
    self->state = state;
    self->pending = p;
    self->dtype = dtype;
    *place = &p->request;
    return (PyObject *)self;
}

PyObject *request_started(native *state, PyObject *object, rueda_status status)
{
    if (status == RUEDA_OK)
        return object;
    native_raise(state, status);
    Py_DECREF(object);
    return NULL;
}

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

bool request_wait(native *state, rueda_request *running, double seconds, rueda_status *status)
{
    const double until_ms = seconds < 0 ? HUGE_VAL : now_ms() + seconds * 1e3;
    for (;;) {
        if (state->closing) {
            PyErr_SetString(state->error, "shutdown was called while this thread waited");
            return false;
        }
        const double left_ms = until_ms - now_ms();
        const int64_t slice_ms = left_ms >= WAIT_SLICE_MS ? WAIT_SLICE_MS
                                 : left_ms > 0            ? (int64_t)left_ms + 1
                                                          : 0;
        state->waiting++;
        Py_BEGIN_ALLOW_THREADS
        *status = rueda_wait(running, slice_ms);
        Py_END_ALLOW_THREADS
        state->waiting--;
        if (*status != RUEDA_PENDING)
            return true;
        if (PyErr_CheckSignals() != 0)
            return false;
        if (slice_ms < WAIT_SLICE_MS)
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
    if (!request_wait(self->state, self->pending->request, seconds, &status))
        return NULL;
    if (status == RUEDA_PENDING)
        Py_RETURN_FALSE;
    Py_CLEAR(self->pending->keep);
    if (status != RUEDA_OK)
        return native_raise(self->state, status);
    Py_RETURN_TRUE;
}

static PyObject *poll_method(PyObject *object, PyObject *unused)
{
    (void)unused;
    return PyBool_FromLong(rueda_poll(((request *)object)->pending->request));
}

static PyObject *tuple_of(const int64_t *numbers, int32_t count)
{
    PyObject *tuple = PyTuple_New(count);
    for (int32_t i = 0; i < count && tuple != NULL; i++) {
        PyObject *number = PyLong_FromLongLong(numbers[i]);
        if (number == NULL)
            Py_CLEAR(tuple);
        else
            PyTuple_SetItem(tuple, i, number);
    }
    return tuple;
}

static PyObject *output_method(PyObject *object, PyObject *unused)
{
    (void)unused;
    request *self = (request *)object;
    rueda_output output = RUEDA_OUTPUT;
    const rueda_status status = rueda_take_output(self->pending->request, &output);
    if (status != RUEDA_OK)
        return native_raise(self->state, status);
    PyObject *splits = tuple_of(output.received_splits, output.received_count);
    PyObject *shape = splits == NULL ? NULL : tuple_of(output.shape, output.ndim);
    if (shape == NULL) {
        rueda_output_free(&output);
        Py_XDECREF(splits);
        return NULL;
    }
    /* a flat tensor of bytes serves every framework, whatever types it knows */
    output.ndim = 1;
    output.shape[0] = (int64_t)output.bytes;
    PyObject *capsule = tensor_capsule(&output, RUEDA_U8);
    PyObject *result = capsule == NULL ? NULL : PyTuple_Pack(3, capsule, shape, splits);
    Py_XDECREF(capsule);
    Py_DECREF(shape);
    Py_DECREF(splits);
    return result;
}

static PyObject *output_bytes_method(PyObject *object, PyObject *unused)
{
    (void)unused;
    request *self = (request *)object;
    rueda_output output = RUEDA_OUTPUT;
    const rueda_status status = rueda_take_output(self->pending->request, &output);
    if (status != RUEDA_OK)
        return native_raise(self->state, status);
    PyObject *bytes = PyBytes_FromStringAndSize(output.data, (Py_ssize_t)output.bytes);
    rueda_output_free(&output);
    return bytes;
}

static PyObject *source_method(PyObject *object, PyObject *unused)
{
    (void)unused;
    request *self = (request *)object;
    rueda_output output = RUEDA_OUTPUT;
    const rueda_status status = rueda_take_output(self->pending->request, &output);
    if (status != RUEDA_OK)
        return native_raise(self->state, status);
    rueda_output_free(&output);
    return PyLong_FromLong(output.source);
}

static void dealloc(PyObject *object)
{
    request *self = (request *)object;
    PyTypeObject *type = Py_TYPE(object);
    pending_drop(self->state, self->pending);
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
    {"source", source_method, METH_NOARGS,
     "source() -> int\n\nOf a receive that has ended: the rank that sent, once."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot slots[] = {{Py_tp_dealloc, dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_doc, "A pending operation; made by the submit functions."},
                              {0, NULL}};

PyType_Spec request_spec = {.name = "rueda._native.Request",
                            .basicsize = sizeof(request),
                            .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                            .slots = slots};
