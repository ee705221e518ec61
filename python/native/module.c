/* module.c: the functions of rueda._native. Arguments are positional and checked by the callers in
 * Python; what can be wrong on purpose is told by the engine. */
#include "native.h"

#include <string.h>

native *native_state(PyObject *module)
{
    return PyModule_GetState(module);
}

PyObject *native_raise_text(native *state, rueda_status status, const char *text)
{
    PyObject *sentence = PyUnicode_FromString(*text == '\0' ? rueda_status_sentence(status) : text);
    /* Ctrl-C comes first: it is often why the operation failed, and the interpreter cannot show an error
     * that it interrupts */
    if (sentence == NULL || PyErr_CheckSignals() != 0) {
        Py_XDECREF(sentence);
        return NULL;
    }
    PyObject *kind = status == RUEDA_ERR_ARGUMENT || status == RUEDA_ERR_DUPLICATE
                         ? PyExc_ValueError
                     : status == RUEDA_ERR_STATE  ? state->state_error
                     : status == RUEDA_ERR_MEMORY ? PyExc_MemoryError
                                                  : state->error;
    PyErr_SetObject(kind, sentence);
    Py_DECREF(sentence);
    return NULL;
}

PyObject *native_raise(native *state, rueda_status status)
{
    if (status == RUEDA_ERR_INTERRUPTED && PyErr_Occurred())
        return NULL;
    return native_raise_text(state, status, rueda_error());
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
NUMBER_FUNCTION(members_changing)

static PyObject *py_generation(PyObject *module, PyObject *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(native_state(module)->generation);
}

/* A rank that had no data took no part in what the others agreed on, and begins anew: so all do. */
static PyObject *py_count_join(PyObject *module, PyObject *unused)
{
    (void)unused;
    native_state(module)->generation++;
    Py_RETURN_NONE;
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

static PyObject *py_process_set_add(PyObject *module, PyObject *list)
{
    native *state = native_state(module);
    int32_t count, set = -1;
    rueda_status status;
    int32_t *ranks = native_read_ranks(list, &count);
    if (ranks == NULL || !native_open(state))
        return PyMem_Free(ranks), NULL;
    Py_BEGIN_ALLOW_THREADS
    status = rueda_process_set_add(ranks, count, &set);
    Py_END_ALLOW_THREADS
    PyMem_Free(ranks);
    return status == RUEDA_OK ? PyLong_FromLong(set) : native_raise(state, status);
}

static PyObject *py_process_set_remove(PyObject *module, PyObject *set)
{
    native *state = native_state(module);
    const int32_t id = (int32_t)PyLong_AsLong(set);
    rueda_status status;
    if (PyErr_Occurred() || !native_open(state))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = rueda_process_set_remove(id);
    Py_END_ALLOW_THREADS
    if (status != RUEDA_OK)
        return native_raise(state, status);
    Py_RETURN_NONE;
}

static PyObject *py_process_set_size(PyObject *module, PyObject *set)
{
    (void)module;
    return PyLong_FromLong(rueda_process_set_size((int32_t)PyLong_AsLong(set)));
}

static PyObject *py_process_set_rank(PyObject *module, PyObject *set)
{
    (void)module;
    return PyLong_FromLong(rueda_process_set_rank((int32_t)PyLong_AsLong(set)));
}

static PyObject *py_process_set_ranks(PyObject *module, PyObject *set)
{
    const int32_t id = (int32_t)PyLong_AsLong(set);
    const int size = rueda_process_set_size(id);
    (void)module;
    if (size < 0)
        return PyErr_Occurred() ? NULL : PyList_New(0);
    int32_t *ranks = native_new_array(size, sizeof *ranks);
    if (ranks == NULL)
        return NULL;
    rueda_process_set_ranks(id, ranks, size);
    PyObject *list = PyList_New(size);
    for (int i = 0; i < size && list != NULL; i++) {
        PyObject *rank = PyLong_FromLong(ranks[i]);
        if (rank == NULL)
            Py_CLEAR(list);
        else
            PyList_SetItem(list, i, rank);
    }
    PyMem_Free(ranks);
    return list;
}

/* ---- Operations --------------------------------------------------------------------------------- */

typedef rueda_status (*operation)(const rueda_tensor *, const rueda_options *, rueda_request **);

/* The other rank of these stands where collectives have their root. */
static rueda_status send_to(const rueda_tensor *tensor, const rueda_options *options,
                            rueda_request **request)
{
    return rueda_send(tensor, options->root, options, request);
}

static rueda_status receive_from(const rueda_tensor *tensor, const rueda_options *options,
                                 rueda_request **request)
{
    return rueda_recv(tensor, options->root, options, request);
}

static const operation operations[] = {
    rueda_allreduce, rueda_allgather, rueda_broadcast, rueda_alltoall, rueda_reducescatter,
    rueda_reduce,    rueda_gather,    rueda_scatter,   send_to,        receive_from};
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
    tensor->output_bytes = output.bytes;
    return true;
}

/* NULL for None. */
static bool read_splits(PyObject *list, int64_t **splits)
{
    *splits = NULL;
    if (list == Py_None)
        return true;
    const Py_ssize_t size = PyList_Size(list);
    int64_t *read = native_new_array(size, sizeof *read);
    for (Py_ssize_t i = 0; i < size && read != NULL; i++)
        read[i] = PyLong_AsLongLong(PyList_GetItem(list, i));
    if (PyErr_Occurred())
        return PyMem_Free(read), false;
    *splits = read;
    return true;
}

#define SUBMIT_ARGUMENTS 11

/* submit(operation, tensor, output, name, op, prescale, postscale, set, priority, root, splits) */
static PyObject *py_submit(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    native *state = native_state(module);
    tensor_info info;
    rueda_options options;
    rueda_request **place;
    int64_t *splits;
    if (count != SUBMIT_ARGUMENTS)
        return PyErr_Format(PyExc_TypeError, "submit takes %d arguments", SUBMIT_ARGUMENTS);
    const size_t kind = PyLong_AsSize_t(args[0]);
    if (PyErr_Occurred() || kind >= OPERATIONS || !native_open(state) ||
        !tensor_read(state, args[1], &info) || !read_output(state, args[2], &info.tensor) ||
        !read_name(args[3], &info.tensor.name) || !native_read_options(args + 4, &options))
        return NULL;
    options.root = (int32_t)PyLong_AsLong(args[9]);
    if (PyErr_Occurred() || !read_splits(args[10], &splits))
        return NULL;
    options.splits = splits;
    if (state->orphans != NULL)
        request_reap(state);
    PyObject *request =
        request_new(state, PyTuple_Pack(2, args[1], args[2]), info.tensor.dtype, &place);
    if (request != NULL)
        request = request_started(state, request, operations[kind](&info.tensor, &options, place));
    PyMem_Free(splits);
    return request;
}

#define GROUP_ARGUMENTS 8

/* submit_group(tensors, outputs, names, op, prescale, postscale, set, priority): lists of equal length */
static PyObject *py_submit_group(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    native *state = native_state(module);
    rueda_options options;
    rueda_request **place;
    if (count != GROUP_ARGUMENTS)
        return PyErr_Format(PyExc_TypeError, "submit_group takes %d arguments", GROUP_ARGUMENTS);
    const Py_ssize_t size = PyList_Size(args[0]);
    if (size < 0 || !native_open(state) || !native_read_options(args + 3, &options))
        return NULL;
    tensor_info *infos = native_new_array(size, sizeof *infos);
    rueda_tensor *tensors = infos == NULL ? NULL : native_new_array(size, sizeof *tensors);
    bool fine = tensors != NULL;
    for (Py_ssize_t i = 0; i < size && fine; i++) {
        fine = tensor_read(state, PyList_GetItem(args[0], i), &infos[i]) &&
               read_output(state, PyList_GetItem(args[1], i), &infos[i].tensor) &&
               read_name(PyList_GetItem(args[2], i), &infos[i].tensor.name);
        tensors[i] = infos[i].tensor;
    }
    PyObject *request =
        fine ? request_new(state, PyTuple_Pack(2, args[0], args[1]), RUEDA_U8, &place) : NULL;
    if (request != NULL)
        request = request_started(state, request,
                                  rueda_grouped_allreduce(tensors, (int32_t)size, &options, place));
    PyMem_Free(infos);
    PyMem_Free(tensors);
    return request;
}

/* Of an operation without tensors. */
static PyObject *new_signal(native *state, rueda_request ***place)
{
    Py_INCREF(Py_None);
    return request_new(state, Py_None, RUEDA_U8, place);
}

static PyObject *py_barrier(PyObject *module, PyObject *set)
{
    native *state = native_state(module);
    rueda_request **place;
    const int32_t id = (int32_t)PyLong_AsLong(set);
    PyObject *request = PyErr_Occurred() || !native_open(state) ? NULL : new_signal(state, &place);
    return request == NULL ? NULL : request_started(state, request, rueda_barrier(id, place));
}

static PyObject *py_join(PyObject *module, PyObject *unused)
{
    (void)unused;
    native *state = native_state(module);
    rueda_request **place;
    PyObject *request = native_open(state) ? new_signal(state, &place) : NULL;
    return request == NULL ? NULL : request_started(state, request, rueda_join(place));
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
    return Py_BuildValue("{sKsKsKsKsKsKsKsdsd}", COUNT(operations), COUNT(launches), COUNT(bytes),
                         COUNT(rounds), COUNT(control_messages), COUNT(announcements),
                         COUNT(sleeps), "orthogonality", s.orthogonality, "workers_worth",
                         s.workers_worth);
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
    {"members_update", py_members_update, METH_NOARGS,
     "members_update() -> number of the view; blocks. An error is the end of this rank's part in the job"},
    NUMBER_METHOD(rank),
    NUMBER_METHOD(size),
    NUMBER_METHOD(local_rank),
    NUMBER_METHOD(local_size),
    NUMBER_METHOD(cross_rank),
    NUMBER_METHOD(cross_size),
    NUMBER_METHOD(is_homogeneous),
    NUMBER_METHOD(is_initialized),
    NUMBER_METHOD(last_joined),
    NUMBER_METHOD(members_changing),
    {"generation", py_generation, METH_NOARGS,
     "How often init has succeeded, or a join has ended."},
    {"count_join", py_count_join, METH_NOARGS, "A join has ended."},
    {"version", py_version, METH_NOARGS, NULL},
    {"transport", py_transport, METH_NOARGS, NULL},
    {"process_set_add", py_process_set_add, METH_O, "process_set_add(ranks) -> id; blocks"},
    {"process_set_remove", py_process_set_remove, METH_O, "process_set_remove(id); blocks"},
    {"process_set_size", py_process_set_size, METH_O, NULL},
    {"process_set_rank", py_process_set_rank, METH_O, NULL},
    {"process_set_ranks", py_process_set_ranks, METH_O, NULL},
    {"submit", FAST(py_submit), METH_FASTCALL,
     "submit(operation, tensor, output, name, op, prescale, postscale, set, priority, root, splits) -> Request"},
    {"submit_group", FAST(py_submit_group), METH_FASTCALL,
     "submit_group(tensors, outputs, names, op, prescale, postscale, set, priority) -> Request"},
    {"barrier", py_barrier, METH_O, "barrier(set) -> Request"},
    {"join", py_join, METH_NOARGS, "join() -> Request"},
    {"allocate", tensor_allocate, METH_O,
     "allocate(bytes) -> capsule\n\nZeroed memory that the other ranks of this host reach, as a DLPack "
     "tensor of bytes."},
    {"digest", tensor_digest, METH_O,
     "digest(tensor) -> int\n\nA number from 0 to 2**63 - 1 that is the same for equal bytes."},
    {"stats", py_stats, METH_NOARGS, NULL},
    {"orthogonality", py_orthogonality, METH_O, NULL},
    {"timeline_start", py_timeline_start, METH_VARARGS, NULL},
    {"timeline_stop", py_timeline_stop, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};

static bool add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **type)
{
    *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    return *type != NULL && PyModule_AddType(module, *type) == 0;
}

static bool find_exceptions(native *state)
{
    PyObject *exceptions = PyImport_ImportModule("rueda.exceptions");
    if (exceptions == NULL)
        return false;
    state->error = PyObject_GetAttrString(exceptions, "RuedaError");
    if (state->error != NULL)
        state->state_error = PyObject_GetAttrString(exceptions, "StateError");
    Py_DECREF(exceptions);
    return state->state_error != NULL;
}

/* Of a module that could not be made; one that was stays. */
static void forget_all(native *state)
{
    Py_CLEAR(state->error);
    Py_CLEAR(state->state_error);
    Py_CLEAR(state->exchange_name);
    Py_CLEAR(state->grad_name);
    Py_CLEAR(state->request_type);
    Py_CLEAR(state->reducer_type);
    Py_CLEAR(state->hook_type);
}

static int execute(PyObject *module)
{
    native *state = native_state(module);
    if (find_exceptions(state) &&
        (state->exchange_name = PyUnicode_InternFromString("__dlpack_c_exchange_api__")) != NULL &&
        (state->grad_name = PyUnicode_InternFromString("grad")) != NULL &&
        add_type(module, &request_spec, &state->request_type) &&
        add_type(module, &reducer_spec, &state->reducer_type) &&
        add_type(module, &hook_spec, &state->hook_type))
        return 0;
    forget_all(state);
    return -1;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, execute}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,    .m_name = "rueda._native", .m_doc = "include/rueda.h for Python.",
    .m_size = sizeof(native), .m_methods = functions,    .m_slots = slots};

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModuleDef_Init(&definition);
}
