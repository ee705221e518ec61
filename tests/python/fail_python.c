/* fail_python.c: beside fail_nth.c, the calls by which the extension asks CPython for objects and memory. Each
 * fails as the real one would: with NULL, and MemoryError where it raises. */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>

#include "fail_nth.h"

#include <stdarg.h>

static bool fails(const char *call, const void *caller)
{
    if (!fail_nth_now(call, caller))
        return false;
    PyErr_NoMemory();
    return true;
}

#define CAN_FAIL(type, name, parameters, arguments, failed)                                        \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        return fails(#name, __builtin_return_address(0)) ? (failed) : __real_##name arguments;     \
    }

CAN_FAIL(PyObject *, PyList_New, (Py_ssize_t size), (size), NULL)
CAN_FAIL(int, PyList_Append, (PyObject * list, PyObject *item), (list, item), -1)
CAN_FAIL(PyObject *, PyTuple_New, (Py_ssize_t size), (size), NULL)
CAN_FAIL(PyObject *, PyLong_FromLong, (long value), (value), NULL)
CAN_FAIL(PyObject *, PyLong_FromLongLong, (long long value), (value), NULL)
CAN_FAIL(PyObject *, PyLong_FromSsize_t, (Py_ssize_t value), (value), NULL)
CAN_FAIL(PyObject *, PyLong_FromUnsignedLong, (unsigned long value), (value), NULL)
CAN_FAIL(PyObject *, PyFloat_FromDouble, (double value), (value), NULL)
CAN_FAIL(PyObject *, PyUnicode_FromString, (const char *text), (text), NULL)
CAN_FAIL(PyObject *, PyUnicode_InternFromString, (const char *text), (text), NULL)
CAN_FAIL(const char *, PyUnicode_AsUTF8AndSize, (PyObject * text, Py_ssize_t *size), (text, size),
         NULL)
CAN_FAIL(PyObject *, PyBytes_FromStringAndSize, (const char *bytes, Py_ssize_t size), (bytes, size),
         NULL)
CAN_FAIL(PyObject *, PyCapsule_New,
         (void *pointer, const char *name, PyCapsule_Destructor destructor),
         (pointer, name, destructor), NULL)
CAN_FAIL(PyObject *, PyObject_GetAttr, (PyObject * object, PyObject *name), (object, name), NULL)
CAN_FAIL(int, PyObject_SetAttr, (PyObject * object, PyObject *name, PyObject *value),
         (object, name, value), -1)
CAN_FAIL(PyObject *, PyObject_GetAttrString, (PyObject * object, const char *name), (object, name),
         NULL)
CAN_FAIL(PyObject *, PyObject_CallObject, (PyObject * callable, PyObject *arguments),
         (callable, arguments), NULL)
CAN_FAIL(PyObject *, PyImport_ImportModule, (const char *name), (name), NULL)
CAN_FAIL(PyObject *, PyType_FromModuleAndSpec,
         (PyObject * module, PyType_Spec *spec, PyObject *bases), (module, spec, bases), NULL)
CAN_FAIL(int, PyModule_AddType, (PyObject * module, PyTypeObject *type), (module, type), -1)
CAN_FAIL(PyObject *, _PyObject_New, (PyTypeObject * type), (type), NULL)
CAN_FAIL(PyObject *, _PyObject_GC_New, (PyTypeObject * type), (type), NULL)

/* The only one that raises nothing itself. */
void *__real_PyMem_Malloc(size_t bytes);
void *__wrap_PyMem_Malloc(size_t bytes);
void *__wrap_PyMem_Malloc(size_t bytes)
{
    return fail_nth_now("PyMem_Malloc", __builtin_return_address(0)) ? NULL
                                                                     : __real_PyMem_Malloc(bytes);
}

#define PACK_MOST 3

PyObject *__real_PyTuple_Pack(Py_ssize_t size, ...);
PyObject *__wrap_PyTuple_Pack(Py_ssize_t size, ...);
PyObject *__wrap_PyTuple_Pack(Py_ssize_t size, ...)
{
    PyObject *items[PACK_MOST] = {NULL};
    va_list more;
    va_start(more, size);
    for (Py_ssize_t i = 0; i < size && i < PACK_MOST; i++)
        items[i] = va_arg(more, PyObject *);
    va_end(more);
    return fails("PyTuple_Pack", __builtin_return_address(0))
               ? NULL
               : __real_PyTuple_Pack(size, items[0], items[1], items[2]);
}
