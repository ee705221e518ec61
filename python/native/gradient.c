/* gradient.c: a parameter's place in its bucket, and how its gradient gets there. */
#include "reducer.h"

#include <string.h>

static bool keep_look(native *state, gradient *g)
{
    dl_tensor look;
    if (!tensor_look(state, g->view, &look) || look.ndim > RUEDA_MAX_DIMS || look.device != DL_CPU)
        return false;
    g->bytes = look.type.bits / 8u;
    for (int i = 0; i < look.ndim; i++) {
        g->extents[i] = look.shape[i];
        g->extents[RUEDA_MAX_DIMS + i] = look.strides == NULL ? 0 : look.strides[i];
        g->bytes *= (size_t)look.shape[i];
    }
    g->look = look;
    g->look.shape = g->extents;
    g->look.strides = g->extents + RUEDA_MAX_DIMS;
    return look.strides != NULL || look.ndim == 0;
}

bool gradient_make(native *state, gradient *g, PyObject *row)
{
    PyObject *view;
    unsigned long long flag;
    if (!PyArg_ParseTuple(row, "OnKl", &view, &g->bucket, &flag, &g->passes_left))
        return false;
    g->flag = (char *)(uintptr_t)flag;
    if (view != Py_None) {
        Py_INCREF(view);
        g->view = view;
        if (!keep_look(state, g))
            Py_CLEAR(g->view);
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

int gradient_take(native *state, gradient *g, PyObject *parameter)
{
    PyObject *grad = PyObject_GetAttr(parameter, state->grad_name);
    if (grad == NULL)
        return -1;
    dl_tensor look;
    int done = grad == g->view;
    if (!done && grad != Py_None && tensor_look(state, grad, &look) &&
        (look.strides != NULL || look.ndim == 0) && same_layout(&look, &g->look)) {
        memcpy((char *)g->look.data + g->look.byte_offset, (char *)look.data + look.byte_offset,
               g->bytes);
        done = PyObject_SetAttr(parameter, state->grad_name, g->view) == 0 ? 1 : -1;
    }
    Py_DECREF(grad);
    return done;
}
