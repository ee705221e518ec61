/* native.h: what the files of the extension share. */
#ifndef RUEDA_NATIVE_H
#define RUEDA_NATIVE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000 /* CPython 3.10 and newer */
#include <Python.h>

#include "dlpack.h"
#include <rueda.h>
#include <stdbool.h>

/* State of the module: one for each interpreter. All of it is protected by the interpreter's lock. */
typedef struct native {
    PyObject *error, *state_error; /* rueda.exceptions */
    PyObject *exchange_name;       /* "__dlpack_c_exchange_api__" */
    PyObject *grad_name;           /* "grad" */
    PyTypeObject *known_type;      /* the tensor type last seen, and how to read it */
    int (*known_read)(void *object, dl_tensor *out);
    PyTypeObject *request_type, *reducer_type, *hook_type;
    struct pending *orphans; /* operations given up while they ran */
    unsigned generation;     /* grows with each init, and each join: ranks agree anew */
    int waiting;             /* threads inside a wait */
    bool closing;            /* shutdown has been called */
} native;

native *native_state(PyObject *module);

/* Raises what a status stands for, with the engine's sentence: ValueError for bad arguments,
 * rueda.exceptions.StateError before init, rueda.exceptions.RuedaError otherwise; or what a signal raises
 * that has arrived meanwhile. Returns NULL. */
PyObject *native_raise(native *state, rueda_status status);
/* The same with another sentence. */
PyObject *native_raise_text(native *state, rueda_status status, const char *text);
/* Whether calls are allowed now; raises if not. */
bool native_open(native *state);

/* Options of an operation, read from Python: (op, prescale, postscale, process set, priority). */
bool native_read_options(PyObject *const *args, rueda_options *options);

/* ---- tensor.c */

typedef struct tensor_info {
    rueda_tensor tensor; /* shape points into this structure: pass it by pointer only */
    int64_t shape[RUEDA_MAX_DIMS];
    size_t bytes;
} tensor_info;

/* Reads a tensor: an object with DLPack's exchange table, or
 * (address, dtype, shape[, owner]). False with an
 * exception: not a tensor, not on the host, not contiguous, of an unknown type. */
bool tensor_read(native *state, PyObject *object, tensor_info *info);
/* What DLPack's exchange table tells of an object; false, without an exception, where it has none. */
bool tensor_look(native *state, PyObject *object, dl_tensor *out);
/* A new capsule "dltensor" over the output, which it takes over, also where it fails. */
PyObject *tensor_capsule(rueda_output *output, rueda_dtype dtype);
/* 63 bits that stand for a tensor's bytes: `digest(tensor)`. */
PyObject *tensor_digest(PyObject *module, PyObject *tensor);
/* rueda_alloc as a capsule: `allocate(bytes)`. */
PyObject *tensor_allocate(PyObject *module, PyObject *bytes);

/* ---- request.c */

/* An operation and what it may touch. It is made before the operation starts: what runs can always be kept,
 * also where there is no more memory. */
typedef struct pending {
    struct pending *next;   /* of those given up */
    rueda_request *request; /* NULL: not started, or ended and freed */
    PyObject *keep;         /* lives until the operation has ended */
} pending;

/* Takes `keep` over. NULL with an exception, also where `keep` is NULL because it could not be made. */
pending *pending_new(PyObject *keep);
/* Frees it, at once or when the operation has ended. NULL is fine. */
void pending_drop(native *state, pending *p);

extern PyType_Spec request_spec;
/* A request object whose operation is still to be started, in *place. Takes `keep` over; NULL as above. */
PyObject *request_new(native *state, PyObject *keep, rueda_dtype dtype, rueda_request ***place);
/* The object when its operation has been started with this status: itself, or NULL with an exception. */
PyObject *request_started(native *state, PyObject *object, rueda_status status);
/* Waits in slices, listening to signals. False with an exception. */
bool request_wait(native *state, rueda_request *request, double seconds, rueda_status *status);
/* Frees what was given up and has ended since. */
void request_reap(native *state);

/* ---- reducer.c, hook.c */

extern PyType_Spec reducer_spec;
extern PyType_Spec hook_spec;

/* life.c. Room for so many elements; none is no failure. NULL with an exception, also where the count has failed. */
void *native_new_array(Py_ssize_t count, size_t element_bytes);
/* A list of ranks, to be freed with PyMem_Free; NULL with an exception. */
int32_t *native_read_ranks(PyObject *list, int32_t *count);
/* Functions of the module. */
PyObject *py_init(PyObject *module, PyObject *args);
PyObject *py_shutdown(PyObject *module, PyObject *unused);
PyObject *py_members_update(PyObject *module, PyObject *unused);

#endif
