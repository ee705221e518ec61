/* hook.c: what happens to a gradient when the backward pass has computed it. */
#include "reducer.h"

typedef struct hook {
    PyObject_HEAD
    reducer *owner;
    Py_ssize_t index;
} hook;

static bool call_nothing(PyObject *callable)
{
    PyObject *result = PyObject_CallObject(callable, NULL);
    Py_XDECREF(result);
    return result != NULL;
}

/* Python's part at the first gradient of a backward pass. */
static bool begin_task(reducer *r)
{
    long task = 0;
    if (r->task_id != Py_None) {
        PyObject *id = PyObject_CallObject(r->task_id, NULL);
        task = id == NULL ? -1 : PyLong_AsLong(id);
        Py_XDECREF(id);
        if (PyErr_Occurred())
            return false;
    }
    if (r->open && task == r->task)
        return true;
    r->task = task;
    r->open = true;
    return call_nothing(r->begin);
}

/* Counts the pass; false: this gradient is still to be accumulated, or (with an exception) must not be. */
static bool count_pass(reducer *r, gradient *g)
{
    if (g->passes_left <= 0 && !r->may_go_on)
        PyErr_SetString(
            PyExc_AssertionError,
            "gradients were computed more than backward_passes_per_step times before "
            "step(): raise backward_passes_per_step, or call step() or zero_grad() first");
    else if (g->passes_left > 0)
        g->passes_left--;
    return g->passes_left <= 0 && !PyErr_Occurred();
}

static bool take_slowly(reducer *r, Py_ssize_t index, PyObject *parameter)
{
    PyObject *result = PyObject_CallFunction(r->slow, "nO", index, parameter);
    Py_XDECREF(result);
    return result != NULL;
}

static bool run_hook(reducer *r, Py_ssize_t index, PyObject *parameter)
{
    gradient *g = &r->gradients[index];
    if (r->generation != r->state->generation)
        return take_slowly(r, index, parameter); /* Python starts over */
    if (!count_pass(r, g))
        return !PyErr_Occurred();
    if (!begin_task(r))
        return false;
    const int taken = g->view == NULL || g->arrived ? 0 : gradient_take(r->state, g, parameter);
    if (taken < 0)
        return false;
    if (taken == 0 && !g->arrived && !take_slowly(r, index, parameter))
        return false;
    return reducer_arrive(r, g, true);
}

static PyObject *call_hook(PyObject *object, PyObject *args, PyObject *keywords)
{
    (void)keywords;
    const hook *h = (hook *)object;
    h->owner->gradients[h->index].fresh = true;
    if (!h->owner->enabled)
        Py_RETURN_NONE;
    if (!run_hook(h->owner, h->index, PyTuple_GetItem(args, 0)))
        return NULL;
    Py_RETURN_NONE;
}

static int traverse_hook(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT((PyObject *)((hook *)object)->owner);
    return 0;
}

static void dealloc_hook(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    Py_XDECREF((PyObject *)((hook *)object)->owner);
    PyObject_GC_Del(object);
    Py_DECREF((PyObject *)type);
}

PyObject *hook_new(reducer *r, Py_ssize_t index)
{
    hook *h = PyObject_GC_New(hook, r->state->hook_type);
    if (h == NULL)
        return NULL;
    Py_INCREF((PyObject *)r);
    h->owner = r;
    h->index = index;
    PyObject_GC_Track((PyObject *)h);
    return (PyObject *)h;
}

static PyType_Slot hook_slots[] = {{Py_tp_dealloc, dealloc_hook},
                                   {Py_tp_traverse, traverse_hook},
                                   {Py_tp_call, call_hook},
                                   {0, NULL}};

PyType_Spec hook_spec = {.name = "rueda._native.Hook",
                         .basicsize = sizeof(hook),
                         .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
                                  Py_TPFLAGS_DISALLOW_INSTANTIATION,
                         .slots = hook_slots};
