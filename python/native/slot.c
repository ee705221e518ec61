/* slot.c: a parameter's place in its bucket, and how its gradient gets there. */
#include "reducer.h"

#include <string.h>

static bool keep_look(native *state, slot *s)
{
    dl_tensor look;
    if (!tensor_look(state, s->view, &look) || look.ndim > RUEDA_MAX_DIMS || look.device != DL_CPU)
        return false;
    s->bytes = look.type.bits / 8u;
    for (int i = 0; i < look.ndim; i++) {
        s->extents[i] = look.shape[i];
        s->extents[RUEDA_MAX_DIMS + i] = look.strides == NULL ? 0 : look.strides[i];
        s->bytes *= (size_t)look.shape[i];
    }
    s->look = look;
    s->look.shape = s->extents;
    s->look.strides = s->extents + RUEDA_MAX_DIMS;
    return look.strides != NULL || look.ndim == 0;
}

bool slot_make(native *state, slot *s, PyObject *row)
{
    PyObject *view;
    unsigned long long flag;
    if (!PyArg_ParseTuple(row, "OnKl", &view, &s->bucket, &flag, &s->passes_left))
        return false;
    s->flag = (char *)(uintptr_t)flag;
    if (view != Py_None) {
        Py_INCREF(view);
        s->view = view;
        if (!keep_look(state, s))
            Py_CLEAR(s->view);
    }
    return true;
}

static bool same_layout(const dl_tensor *a, const dl_tensor *b)
{
    if (a->ndim != b->ndim || memcmp(&a->type, &b->type, sizeof a->type) != 0 ||
        a->device != b->device)
        return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->shape[i] != b->shape[i] || (a->shape[i] != 1 && a->strides[i] != b->strides[i]))
            return false;
    return true;
}

int slot_take_gradient(native *state, slot *s, PyObject *parameter)
{
    PyObject *grad = PyObject_GetAttr(parameter, state->grad_name);
    if (grad == NULL)
        return -1;
    dl_tensor look;
    int done = grad == s->view;
    if (!done && grad != Py_None && tensor_look(state, grad, &look) &&
        (look.strides != NULL || look.ndim == 0) && same_layout(&look, &s->look)) {
        memcpy((char *)s->look.data + s->look.byte_offset, (char *)look.data + look.byte_offset,
               s->bytes);
        done = PyObject_SetAttr(parameter, state->grad_name, s->view) == 0 ? 1 : -1;
    }
    Py_DECREF(grad);
    return done;
}
