/* module.c: the functions of rueda._native. Arguments are positional and checked by the callers in
 * Python; what can be wrong on purpose is told by the engine. */
#include "native.h"

#include <string.h>
#include <time.h>

#define CLOSE_PAUSE_MS 1

native *native_state(PyObject *module)
{
    return PyModule_GetState(module);
}

PyObject *native_raise(native *state, rueda_status status)
{
    PyObject *kind = status == RUEDA_ERR_ARGUMENT || status == RUEDA_ERR_DUPLICATE
                         ? PyExc_ValueError
                     : status == RUEDA_ERR_STATE  ? state->state_error
                     : status == RUEDA_ERR_MEMORY ? PyExc_MemoryError
                                                  : state->error;
    const char *text = rueda_error();
    PyErr_SetString(kind, *text == '\0' ? rueda_status_sentence(status) : text);
    return NULL;
}

bool native_open(native *state)
{
    if (state->closing)
        PyErr_SetString(state->error, "the job is being shut down");
    return !state->closing;
}

bool native_read_options(PyObject *const *args, rueda_options *options)
{
    *options = RUEDA_OPTIONS((rueda_op)PyLong_AsLong(args[0]));
    options->prescale = PyFloat_AsDouble(args[1]);
    options->postscale = PyFloat_AsDouble(args[2]);
    options->process_set = (int32_t)PyLong_AsLong(args[3]);
    options->priority = (int32_t)PyLong_AsLong(args[4]);
    return !PyErr_Occurred();
}

/* ---- Life --------------------------------------------------------------------------------------- */

#define MAX_FIRST_SETS (RUEDA_MAX_SETS - 1)

typedef struct first_sets {
    int32_t *ranks[MAX_FIRST_SETS];
    int32_t sizes[MAX_FIRST_SETS];
} first_sets;

static int32_t *read_ranks(PyObject *list, int32_t *count)
{
    const Py_ssize_t size = PyList_Size(list);
    int32_t *ranks = size < 0 ? NULL : PyMem_Malloc(((size_t)size + 1) * sizeof *ranks);
    for (Py_ssize_t i = 0; i < size && ranks != NULL; i++)
        ranks[i] = (int32_t)PyLong_AsLong(PyList_GetItem(list, i));
    *count = (int32_t)size;
    if (ranks != NULL && PyErr_Occurred()) {
        PyMem_Free(ranks);
        ranks = NULL;
    }
    return ranks;
}

static rueda_status run_init(const first_sets *sets, int32_t count, const void *communicator)
{
    rueda_status status;
    const rueda_init_options options = {.struct_size = sizeof options,
                                        .set_count = count,
                                        .set_ranks = (const int32_t *const *)sets->ranks,
                                        .set_sizes = sets->sizes,
                                        .mpi_communicator = communicator};
    Py_BEGIN_ALLOW_THREADS
    status = rueda_init(&options);
    Py_END_ALLOW_THREADS
    return status;
}

static PyObject *py_init(PyObject *module, PyObject *args)
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
    while (read < count &&
           (sets.ranks[read] = read_ranks(PyList_GetItem(lists, read), &sets.sizes[read])) != NULL)
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

static PyObject *py_shutdown(PyObject *module, PyObject *unused)
{
    (void)unused;
    native *state = native_state(module);
    rueda_status status;
    state->closing = true;
    while (state->waiting > 0) { /* they leave at the end of their slice */
        const struct timespec nap = {0, CLOSE_PAUSE_MS * 1000000L};
        Py_BEGIN_ALLOW_THREADS
        nanosleep(&nap, NULL);
        Py_END_ALLOW_THREADS
    }
    Py_BEGIN_ALLOW_THREADS
    status = rueda_shutdown();
    Py_END_ALLOW_THREADS
    state->closing = false;
    request_reap(state);
    if (status != RUEDA_OK)
        return native_raise(state, status);
    Py_RETURN_NONE;
}

#define NUMBER_FUNCTION(name)                                                                      \
    static PyObject *py_##name(PyObject *module, PyObject *unused)                                 \
    {                                                                                              \
        (void)module;                                                                              \
        (void)unused;                                                                              \
        return PyLong_FromLong(rueda_##name());                                                    \
    }
NUMBER_FUNCTION(rank)
NUMBER_FUNCTION(size)
NUMBER_FUNCTION(local_rank)
NUMBER_FUNCTION(local_size)
NUMBER_FUNCTION(cross_rank)
NUMBER_FUNCTION(cross_size)
NUMBER_FUNCTION(is_homogeneous)
NUMBER_FUNCTION(is_initialized)
NUMBER_FUNCTION(last_joined)

static PyObject *py_generation(PyObject *module, PyObject *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(native_state(module)->generation);
}

static PyObject *py_version(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyUnicode_FromString(rueda_version());
}

static PyObject *py_transport(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyUnicode_FromString(rueda_transport());
}

/* ---- Process sets ------------------------------------------------------------------------------- */

static PyObject *py_add_process_set(PyObject *module, PyObject *list)
{
    native *state = native_state(module);
    int32_t count, set = -1;
    rueda_status status;
    int32_t *ranks = read_ranks(list, &count);
    if (ranks == NULL || !native_open(state))
        return PyMem_Free(ranks), NULL;
    Py_BEGIN_ALLOW_THREADS
    status = rueda_add_process_set(ranks, count, &set);
    Py_END_ALLOW_THREADS
    PyMem_Free(ranks);
    return status == RUEDA_OK ? PyLong_FromLong(set) : native_raise(state, status);
}

static PyObject *py_remove_process_set(PyObject *module, PyObject *set)
{
    native *state = native_state(module);
    const int32_t id = (int32_t)PyLong_AsLong(set);
    rueda_status status;
    if (PyErr_Occurred() || !native_open(state))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = rueda_remove_process_set(id);
    Py_END_ALLOW_THREADS
    if (status != RUEDA_OK)
        return native_raise(state, status);
    Py_RETURN_NONE;
}

static PyObject *py_set_size(PyObject *module, PyObject *set)
{
    (void)module;
    return PyLong_FromLong(rueda_set_size((int32_t)PyLong_AsLong(set)));
}

static PyObject *py_set_rank(PyObject *module, PyObject *set)
{
    (void)module;
    return PyLong_FromLong(rueda_set_rank((int32_t)PyLong_AsLong(set)));
}

static PyObject *py_set_ranks(PyObject *module, PyObject *set)
{
    const int32_t id = (int32_t)PyLong_AsLong(set);
    const int size = rueda_set_size(id);
    (void)module;
    if (size < 0)
        return PyErr_Occurred() ? NULL : PyList_New(0);
    int32_t *ranks = PyMem_Malloc((size_t)size * sizeof *ranks);
    if (ranks == NULL)
        return PyErr_NoMemory();
    rueda_set_ranks(id, ranks, size);
    PyObject *list = PyList_New(size);
    for (int i = 0; i < size && list != NULL; i++)
        PyList_SetItem(list, i, PyLong_FromLong(ranks[i]));
    PyMem_Free(ranks);
    return list;
}

/* ---- Operations --------------------------------------------------------------------------------- */

typedef rueda_status (*operation)(const rueda_tensor *, const rueda_options *, rueda_request **);

static const operation operations[] = {rueda_allreduce, rueda_allgather, rueda_broadcast,
                                       rueda_alltoall, rueda_reducescatter};
#define OPERATIONS (sizeof operations / sizeof operations[0])

/* The name as UTF-8, valid as long as the object; NULL for None. */
static bool read_name(PyObject *object, const char **name)
{
    *name = object == Py_None ? NULL : PyUnicode_AsUTF8AndSize(object, NULL);
    return !PyErr_Occurred();
}

static bool read_output(native *state, PyObject *object, rueda_tensor *tensor)
{
    tensor_info output;
    if (object == Py_None)
        return true;
    if (!tensor_read(state, object, &output))
        return false;
    tensor->output = output.tensor.input;
    return true;
}

static int64_t *read_splits(PyObject *list)
{
    const Py_ssize_t size = PyList_Size(list);
    int64_t *splits = size < 0 ? NULL : PyMem_Malloc(((size_t)size + 1) * sizeof *splits);
    for (Py_ssize_t i = 0; i < size && splits != NULL; i++)
        splits[i] = PyLong_AsLongLong(PyList_GetItem(list, i));
    return splits;
}

#define SUBMIT_ARGUMENTS 11

/* submit(operation, tensor, output, name, op, prescale, postscale, set, priority, root, splits) */
static PyObject *py_submit(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    native *state = native_state(module);
    tensor_info info;
    rueda_options options;
    rueda_request *request = NULL;
    if (count != SUBMIT_ARGUMENTS)
        return PyErr_Format(PyExc_TypeError, "submit takes %d arguments", SUBMIT_ARGUMENTS);
    const size_t kind = PyLong_AsSize_t(args[0]);
    if (PyErr_Occurred() || kind >= OPERATIONS || !native_open(state) ||
        !tensor_read(state, args[1], &info) || !read_output(state, args[2], &info.tensor) ||
        !read_name(args[3], &info.tensor.name) || !native_read_options(args + 4, &options))
        return NULL;
    options.root = (int32_t)PyLong_AsLong(args[9]);
    int64_t *splits = args[10] == Py_None ? NULL : read_splits(args[10]);
    options.splits = splits;
    if (state->orphans != NULL)
        request_reap(state);
    const rueda_status status =
        PyErr_Occurred() ? RUEDA_ERR_ARGUMENT : operations[kind](&info.tensor, &options, &request);
    PyMem_Free(splits);
    if (PyErr_Occurred())
        return NULL;
    if (status != RUEDA_OK)
        return native_raise(state, status);
    PyObject *keep = PyTuple_Pack(2, args[1], args[2]);
    return keep == NULL ? NULL : request_wrap(state, request, keep, info.tensor.dtype);
}

#define GROUP_ARGUMENTS 8

/* submit_group(tensors, outputs, names, op, prescale, postscale, set, priority): lists of equal length */
static PyObject *py_submit_group(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    native *state = native_state(module);
    rueda_options options;
    rueda_request *request = NULL;
    if (count != GROUP_ARGUMENTS)
        return PyErr_Format(PyExc_TypeError, "submit_group takes %d arguments", GROUP_ARGUMENTS);
    const Py_ssize_t size = PyList_Size(args[0]);
    if (size < 0 || !native_open(state) || !native_read_options(args + 3, &options))
        return NULL;
    tensor_info *infos = PyMem_Malloc(((size_t)size + 1) * sizeof *infos);
    rueda_tensor *tensors = PyMem_Malloc(((size_t)size + 1) * sizeof *tensors);
    bool fine = infos != NULL && tensors != NULL;
    for (Py_ssize_t i = 0; i < size && fine; i++) {
        fine = tensor_read(state, PyList_GetItem(args[0], i), &infos[i]) &&
               read_output(state, PyList_GetItem(args[1], i), &infos[i].tensor) &&
               read_name(PyList_GetItem(args[2], i), &infos[i].tensor.name);
        tensors[i] = infos[i].tensor;
    }
    const rueda_status status =
        fine ? rueda_grouped_allreduce(tensors, (int32_t)size, &options, &request)
             : RUEDA_ERR_MEMORY;
    PyMem_Free(infos);
    PyMem_Free(tensors);
    if (PyErr_Occurred())
        return NULL;
    if (status != RUEDA_OK)
        return native_raise(state, status);
    PyObject *keep = PyTuple_Pack(2, args[0], args[1]);
    return keep == NULL ? NULL : request_wrap(state, request, keep, RUEDA_U8);
}

static PyObject *wrap_signal(native *state, rueda_status status, rueda_request *request)
{
    if (status != RUEDA_OK)
        return native_raise(state, status);
    Py_INCREF(Py_None);
    return request_wrap(state, request, Py_None, RUEDA_U8);
}

static PyObject *py_barrier(PyObject *module, PyObject *set)
{
    rueda_request *request = NULL;
    const int32_t id = (int32_t)PyLong_AsLong(set);
    if (PyErr_Occurred() || !native_open(native_state(module)))
        return NULL;
    const rueda_status status = rueda_barrier(id, &request);
    return wrap_signal(native_state(module), status, request);
}

static PyObject *py_join(PyObject *module, PyObject *unused)
{
    rueda_request *request = NULL;
    (void)unused;
    if (!native_open(native_state(module)))
        return NULL;
    const rueda_status status = rueda_join(&request);
    return wrap_signal(native_state(module), status, request);
}

/* ---- Insight ------------------------------------------------------------------------------------ */

static PyObject *py_stats(PyObject *module, PyObject *unused)
{
    rueda_stats s = {.struct_size = sizeof s};
    (void)unused;
    const rueda_status status = rueda_get_stats(&s);
    if (status != RUEDA_OK)
        return native_raise(native_state(module), status);
#define COUNT(field) #field, (unsigned long long)s.field
    return Py_BuildValue("{sKsKsKsKsKsKsKsd}", COUNT(operations), COUNT(launches), COUNT(bytes),
                         COUNT(rounds), COUNT(control_messages), COUNT(announcements),
                         COUNT(sleeps), "orthogonality", s.orthogonality);
}

static PyObject *py_orthogonality(PyObject *module, PyObject *name)
{
    const char *text;
    rueda_stats all = {.struct_size = sizeof all}; /* of no name: NaN before the first Adasum */
    if (!read_name(name, &text))
        return NULL;
    const rueda_status status =
        text == NULL ? rueda_get_stats(&all) : rueda_orthogonality(text, &all.orthogonality);
    return status == RUEDA_OK ? PyFloat_FromDouble(all.orthogonality)
                              : native_raise(native_state(module), status);
}

static PyObject *py_timeline_start(PyObject *module, PyObject *args)
{
    const char *path;
    int mark_cycles;
    if (!PyArg_ParseTuple(args, "sp:timeline_start", &path, &mark_cycles))
        return NULL;
    const rueda_status status = rueda_timeline_start(path, mark_cycles);
    if (status != RUEDA_OK)
        return native_raise(native_state(module), status);
    Py_RETURN_NONE;
}

static PyObject *py_timeline_stop(PyObject *module, PyObject *unused)
{
    (void)unused;
    const rueda_status status = rueda_timeline_stop();
    if (status != RUEDA_OK)
        return native_raise(native_state(module), status);
    Py_RETURN_NONE;
}

/* ---- The module --------------------------------------------------------------------------------- */

#define FAST(function) (PyCFunction)(void (*)(void))(function)
#define NUMBER_METHOD(name)                                                                        \
    {                                                                                              \
#name, py_##name, METH_NOARGS, NULL                                                        \
    }

static PyMethodDef functions[] = {
    {"init", py_init, METH_VARARGS,
     "init(process_sets: list of lists of ranks, communicator: address of an MPI_Comm, or 0); blocks"},
    {"shutdown", py_shutdown, METH_NOARGS, "shutdown(); blocks"},
    NUMBER_METHOD(rank),
    NUMBER_METHOD(size),
    NUMBER_METHOD(local_rank),
    NUMBER_METHOD(local_size),
    NUMBER_METHOD(cross_rank),
    NUMBER_METHOD(cross_size),
    NUMBER_METHOD(is_homogeneous),
    NUMBER_METHOD(is_initialized),
    NUMBER_METHOD(last_joined),
    {"generation", py_generation, METH_NOARGS, "How often init has succeeded."},
    {"version", py_version, METH_NOARGS, NULL},
    {"transport", py_transport, METH_NOARGS, NULL},
    {"add_process_set", py_add_process_set, METH_O, "add_process_set(ranks) -> id; blocks"},
    {"remove_process_set", py_remove_process_set, METH_O, "remove_process_set(id); blocks"},
    {"set_size", py_set_size, METH_O, NULL},
    {"set_rank", py_set_rank, METH_O, NULL},
    {"set_ranks", py_set_ranks, METH_O, NULL},
    {"submit", FAST(py_submit), METH_FASTCALL,
     "submit(operation, tensor, output, name, op, prescale, postscale, set, priority, root, splits) -> Request"},
    {"submit_group", FAST(py_submit_group), METH_FASTCALL,
     "submit_group(tensors, outputs, names, op, prescale, postscale, set, priority) -> Request"},
    {"barrier", py_barrier, METH_O, "barrier(set) -> Request"},
    {"join", py_join, METH_NOARGS, "join() -> Request"},
    {"allocate", tensor_allocate, METH_O,
     "allocate(bytes) -> capsule\n\nZeroed memory that the other ranks of this host reach, as a DLPack "
     "tensor of bytes."},
    {"stats", py_stats, METH_NOARGS, NULL},
    {"orthogonality", py_orthogonality, METH_O, NULL},
    {"timeline_start", py_timeline_start, METH_VARARGS, NULL},
    {"timeline_stop", py_timeline_stop, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};

static PyTypeObject *add_type(PyObject *module, PyType_Spec *spec)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    if (type == NULL || PyModule_AddType(module, (PyTypeObject *)type) != 0)
        return NULL;
    return (PyTypeObject *)type;
}

static int execute(PyObject *module)
{
    native *state = native_state(module);
    PyObject *exceptions = PyImport_ImportModule("rueda.exceptions");
    if (exceptions == NULL)
        return -1;
    state->error = PyObject_GetAttrString(exceptions, "RuedaError");
    state->state_error = PyObject_GetAttrString(exceptions, "StateError");
    Py_DECREF(exceptions);
    state->exchange_name = PyUnicode_InternFromString("__dlpack_c_exchange_api__");
    state->grad_name = PyUnicode_InternFromString("grad");
    state->request_type = add_type(module, &request_spec);
    state->reducer_type = add_type(module, &reducer_spec);
    state->hook_type = add_type(module, &hook_spec);
    return PyErr_Occurred() ? -1 : 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, execute}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,    .m_name = "rueda._native", .m_doc = "include/rueda.h for Python.",
    .m_size = sizeof(native), .m_methods = functions,    .m_slots = slots};

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModuleDef_Init(&definition);
}
