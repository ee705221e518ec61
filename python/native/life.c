/* life.c: a rank's life as Python sees it: joining the job, adopting its next view, leaving. */
#include "native.h"

#include <time.h>

#define CLOSE_PAUSE_MS 1

#define MAX_FIRST_SETS (RUEDA_MAX_SETS - 1)

typedef struct first_sets {
    int32_t *ranks[MAX_FIRST_SETS];
    int32_t sizes[MAX_FIRST_SETS];
} first_sets;

/* Room for so many elements; none is no failure. NULL with an exception, also where the count has failed. */
void *native_new_array(Py_ssize_t count, size_t element_bytes)
{
    void *array = count < 0 ? NULL : PyMem_Malloc(((size_t)count + 1) * element_bytes);
    return array != NULL || PyErr_Occurred() ? array : PyErr_NoMemory();
}

int32_t *native_read_ranks(PyObject *list, int32_t *count)
{
    const Py_ssize_t size = PyList_Size(list);
    int32_t *ranks = native_new_array(size, sizeof *ranks);
    for (Py_ssize_t i = 0; i < size && ranks != NULL; i++)
        ranks[i] = (int32_t)PyLong_AsLong(PyList_GetItem(list, i));
    *count = (int32_t)size;
    if (ranks != NULL && PyErr_Occurred()) {
        PyMem_Free(ranks);
        ranks = NULL;
    }
    return ranks;
}

/* Asked while rueda_init, or a function for process sets, blocks without the interpreter's lock. */
static int is_interrupted(void *unused)
{
    (void)unused;
    const PyGILState_STATE lock = PyGILState_Ensure();
    const int interrupted = PyErr_CheckSignals() != 0;
    PyGILState_Release(lock);
    return interrupted;
}

static rueda_status run_init(const first_sets *sets, int32_t count, const void *communicator)
{
    rueda_status status;
    const rueda_init_options options = {.struct_size = sizeof options,
                                        .set_count = count,
                                        .set_ranks = (const int32_t *const *)sets->ranks,
                                        .set_sizes = sets->sizes,
                                        .mpi_communicator = communicator,
                                        .interrupted = is_interrupted};
    Py_BEGIN_ALLOW_THREADS
    status = rueda_init(&options);
    Py_END_ALLOW_THREADS
    return status;
}

PyObject *py_init(PyObject *module, PyObject *args)
{
    native *state = native_state(module);
    first_sets sets = {0};
    PyObject *lists;
    unsigned long long communicator;
    if (!PyArg_ParseTuple(args, "O!K:init", &PyList_Type, &lists, &communicator))
        return NULL;
    const Py_ssize_t count = PyList_Size(lists);
    Py_ssize_t read = 0;
    if (count > MAX_FIRST_SETS)
        return PyErr_Format(PyExc_ValueError, "%zd process sets are more than %d", count,
                            MAX_FIRST_SETS);
    while (read < count && (sets.ranks[read] = native_read_ranks(PyList_GetItem(lists, read),
                                                                 &sets.sizes[read])) != NULL)
        read++;
    const rueda_status status =
        read == count ? run_init(&sets, (int32_t)count, (const void *)(uintptr_t)communicator)
                      : RUEDA_ERR_ARGUMENT;
    for (Py_ssize_t i = 0; i < read; i++)
        PyMem_Free(sets.ranks[i]);
    if (PyErr_Occurred())
        return NULL;
    if (status != RUEDA_OK)
        return native_raise(state, status);
    state->generation++;
    Py_RETURN_NONE;
}

/* Ends the engine by `end`, when no other thread waits in it any more. */
static rueda_status close_engine(native *state, rueda_status (*end)(void))
{
    rueda_status status;
    state->closing = true;
    while (state->waiting > 0) { /* they leave at the end of their slice */
        const struct timespec nap = {0, CLOSE_PAUSE_MS * 1000000L};
        Py_BEGIN_ALLOW_THREADS
        nanosleep(&nap, NULL);
        Py_END_ALLOW_THREADS
    }
    Py_BEGIN_ALLOW_THREADS
    status = end();
    Py_END_ALLOW_THREADS
    state->closing = false;
    request_reap(state);
    return status;
}

PyObject *py_shutdown(PyObject *module, PyObject *unused)
{
    (void)unused;
    native *state = native_state(module);
    const rueda_status status = close_engine(state, rueda_shutdown);
    if (status != RUEDA_OK)
        return native_raise(state, status);
    Py_RETURN_NONE;
}

static rueda_status update_members(void)
{
    return rueda_members_update(NULL);
}

PyObject *py_members_update(PyObject *module, PyObject *unused)
{
    (void)unused;
    native *state = native_state(module);
    rueda_members before = RUEDA_MEMBERS, now = RUEDA_MEMBERS;
    rueda_status status = rueda_members_get(&before);
    if (status == RUEDA_OK)
        status = close_engine(state, update_members);
    if (status == RUEDA_OK)
        status = rueda_members_get(&now);
    if (status != RUEDA_OK)
        return native_raise(state, status);
    state->generation += now.view != before.view;
    return PyLong_FromUnsignedLongLong(now.view);
}
