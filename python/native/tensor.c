/* tensor.c: tensors of any framework as a pointer, a type and a shape. */
#include "native.h"

#include <stdlib.h>
#include <string.h>

typedef struct type_row {
    dl_type type;
    rueda_dtype dtype;
} type_row;

static const type_row type_rows[] = {
    {{DL_BOOL, 8, 1}, RUEDA_BOOL},    {{DL_UINT, 8, 1}, RUEDA_U8},
    {{DL_INT, 8, 1}, RUEDA_I8},       {{DL_UINT, 16, 1}, RUEDA_U16},
    {{DL_INT, 16, 1}, RUEDA_I16},     {{DL_INT, 32, 1}, RUEDA_I32},
    {{DL_INT, 64, 1}, RUEDA_I64},     {{DL_FLOAT, 16, 1}, RUEDA_F16},
    {{DL_BFLOAT, 16, 1}, RUEDA_BF16}, {{DL_FLOAT, 32, 1}, RUEDA_F32},
    {{DL_FLOAT, 64, 1}, RUEDA_F64},
};
#define TYPE_ROWS (sizeof type_rows / sizeof type_rows[0])

static bool contiguous(const dl_tensor *t)
{
    int64_t expected = 1;
    bool dense = true;
    for (int i = t->ndim - 1; i >= 0 && t->strides != NULL; i--) {
        dense = dense && (t->shape[i] == 1 || t->strides[i] == expected);
        expected *= t->shape[i];
    }
    return dense || expected == 0; /* strides of what has no elements mean nothing */
}

/* NULL: fine, otherwise what is wrong. */
static const char *convert(const dl_tensor *t, tensor_info *info)
{
    size_t row = 0;
    while (row < TYPE_ROWS && memcmp(&type_rows[row].type, &t->type, sizeof t->type) != 0)
        row++;
    if (row == TYPE_ROWS)
        return "its element type is not one that can be combined";
    if (t->device != DL_CPU && t->device != DL_CUDA_HOST)
        return "it is not in the memory of the host";
    if (t->ndim > RUEDA_MAX_DIMS)
        return "it has too many dimensions";
    if (!contiguous(t))
        return "it is not contiguous";
    info->bytes = rueda_dtype_bytes(type_rows[row].dtype);
    for (int i = 0; i < t->ndim; i++) {
        info->shape[i] = t->shape[i];
        info->bytes *= (size_t)t->shape[i];
    }
    info->tensor = RUEDA_TENSOR(NULL, t->data == NULL ? NULL : (char *)t->data + t->byte_offset,
                                type_rows[row].dtype, t->ndim, info->shape);
    return NULL;
}

/* The way to read objects of this type; NULL: there is none, or with an exception: no memory. */
static int (*find_reader(native *state, PyTypeObject *type))(void *, dl_tensor *)
{
    if (type == state->known_type)
        return state->known_read;
    PyObject *capsule = PyObject_GetAttr((PyObject *)type, state->exchange_name);
    const dl_exchange *exchange =
        capsule == NULL ? NULL : PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    Py_XDECREF(capsule);
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_MemoryError))
        PyErr_Clear();
    while (exchange != NULL && exchange->major > DLPACK_MAJOR)
        exchange = exchange->older;
    if (exchange == NULL || exchange->major != DLPACK_MAJOR || !exchange->tensor_from_object)
        return NULL;
    Py_XDECREF((PyObject *)state->known_type);
    Py_INCREF((PyObject *)type);
    state->known_type = type;
    state->known_read = exchange->tensor_from_object;
    return state->known_read;
}

static bool read_tuple(PyObject *tuple, tensor_info *info)
{
    unsigned long long address;
    int dtype;
    PyObject *shape, *owner; /* the owner only lives as long as the tuple */
    if (!PyArg_ParseTuple(tuple, "KiO!|O", &address, &dtype, &PyTuple_Type, &shape, &owner))
        return false;
    const Py_ssize_t ndim = PyTuple_Size(shape);
    if (ndim > RUEDA_MAX_DIMS || dtype < 0 || dtype >= RUEDA_DTYPE_COUNT) {
        PyErr_Format(PyExc_ValueError, "a tensor of dtype %d with %zd dimensions is not supported",
                     dtype, ndim);
        return false;
    }
    info->bytes = rueda_dtype_bytes((rueda_dtype)dtype);
    for (Py_ssize_t i = 0; i < ndim; i++) {
        info->shape[i] = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
        info->bytes *= (size_t)info->shape[i];
    }
    info->tensor = RUEDA_TENSOR(NULL, (void *)(uintptr_t)address, (rueda_dtype)dtype, (int32_t)ndim,
                                info->shape);
    return !PyErr_Occurred();
}

bool tensor_read(native *state, PyObject *object, tensor_info *info)
{
    if (PyTuple_Check(object))
        return read_tuple(object, info);
    int (*read)(void *, dl_tensor *) = find_reader(state, Py_TYPE(object));
    if (read == NULL && PyErr_Occurred())
        return false;
    if (read == NULL) {
        PyErr_Format(PyExc_TypeError, "%R is not a tensor that can be read", Py_TYPE(object));
        return false;
    }
    dl_tensor t;
    if (read(object, &t) != 0)
        return false;
    const char *wrong = convert(&t, info);
    if (wrong != NULL)
        PyErr_Format(PyExc_ValueError, "the tensor cannot be used: %s", wrong);
    return wrong == NULL;
}

bool tensor_look(native *state, PyObject *object, dl_tensor *out)
{
    int (*read)(void *, dl_tensor *) = find_reader(state, Py_TYPE(object));
    const bool seen = read != NULL && read(object, out) == 0;
    if (!seen)
        PyErr_Clear();
    return seen;
}

/* ---- What a tensor holds, as a number ------------------------------------------------------------ */

#define DIGEST_LANES 4 /* side by side, because a multiplication takes its time */

static uint64_t mix(uint64_t mixed, const char *bytes, size_t count)
{
    uint64_t word = 0;
    memcpy(&word, bytes, count);
    mixed = (mixed ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return mixed ^ mixed >> 29; /* a product carries upwards only */
}

/* Bytes that are equal give the same number; others, with all likelihood, another. */
static uint64_t mix_all(const char *bytes, size_t count)
{
    uint64_t lanes[DIGEST_LANES] = {1, 2, 3, 4}, mixed = count;
    const size_t word = sizeof *lanes;
    for (; count >= sizeof lanes; bytes += sizeof lanes, count -= sizeof lanes)
        for (size_t i = 0; i < DIGEST_LANES; i++)
            lanes[i] = mix(lanes[i], bytes + i * word, word);
    for (size_t i = 0; i < DIGEST_LANES; i++)
        mixed = mix(mixed, (const char *)&lanes[i], word);
    for (; count > 0; bytes++, count--)
        mixed = mix(mixed, bytes, 1);
    return mixed;
}

PyObject *tensor_digest(PyObject *module, PyObject *object)
{
    tensor_info info;
    uint64_t mixed;
    if (!tensor_read(native_state(module), object, &info))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    mixed = mix_all(info.tensor.input, info.bytes);
    Py_END_ALLOW_THREADS
    return PyLong_FromLongLong((long long)(mixed >> 1));
}

/* ---- Memory that leaves as a tensor ------------------------------------------------------------- */

typedef struct loan {
    dl_managed managed;
    rueda_output output;
    bool shared; /* from rueda_alloc */
} loan;

static void give_back(rueda_output *output, bool shared)
{
    if (shared)
        rueda_free(output->data);
    rueda_output_free(output);
}

static void end_loan(dl_managed *managed)
{
    loan *l = (loan *)managed;
    give_back(&l->output, l->shared);
    free(l);
}

/* A capsule that nobody took; a consumer renames it. */
static void drop_capsule(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor"))
        end_loan(PyCapsule_GetPointer(capsule, "dltensor"));
}

static PyObject *make_capsule(rueda_output *output, rueda_dtype dtype, bool shared)
{
    loan *l = malloc(sizeof *l);
    if (l == NULL) {
        give_back(output, shared);
        return PyErr_NoMemory();
    }
    *l = (loan){.output = *output, .shared = shared};
    l->managed.tensor = (dl_tensor){
        .data = output->data, .device = DL_CPU, .ndim = output->ndim, .shape = l->output.shape};
    for (size_t i = 0; i < TYPE_ROWS; i++)
        if (type_rows[i].dtype == dtype)
            l->managed.tensor.type = type_rows[i].type;
    l->managed.deleter = end_loan;
    PyObject *capsule = PyCapsule_New(&l->managed, "dltensor", drop_capsule);
    if (capsule == NULL)
        end_loan(&l->managed);
    return capsule;
}

PyObject *tensor_capsule(rueda_output *output, rueda_dtype dtype)
{
    return make_capsule(output, dtype, false);
}

PyObject *tensor_allocate(PyObject *module, PyObject *bytes)
{
    native *state = native_state(module);
    const size_t wanted = PyLong_AsSize_t(bytes);
    if (PyErr_Occurred() || !native_open(state))
        return NULL;
    rueda_output memory = RUEDA_OUTPUT;
    memory.data = rueda_alloc(wanted);
    memory.bytes = wanted;
    memory.ndim = 1;
    memory.shape[0] = (int64_t)wanted;
    if (memory.data == NULL)
        return native_raise(state, RUEDA_ERR_MEMORY);
    return make_capsule(&memory, RUEDA_U8, true);
}
