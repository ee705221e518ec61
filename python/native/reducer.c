/* reducer.c: the gradients of one optimizer as Python sees them: class Reducer. */
#include "reducer.h"

#include <stdlib.h>

/* ---- Making ------------------------------------------------------------------------------------- */

static bool join_bucket(reducer *r, const gradient *g)
{
    if (g->bucket < -1 || g->bucket >= r->bucket_count) {
        PyErr_SetString(PyExc_ValueError, "a gradient names a bucket that is not there");
        return false;
    }
    if (g->bucket >= 0)
        r->buckets[g->bucket].members++;
    return true;
}

static bool make_all(reducer *r, PyObject *gradients, PyObject *buckets)
{
    r->bucket_count = PyList_Size(buckets);
    r->gradient_count = PyList_Size(gradients);
    r->buckets = calloc((size_t)r->bucket_count + 1, sizeof *r->buckets);
    r->gradients = calloc((size_t)r->gradient_count + 1, sizeof *r->gradients);
    if (r->buckets == NULL || r->gradients == NULL)
        return PyErr_NoMemory(), false;
    for (Py_ssize_t i = 0; i < r->bucket_count; i++)
        if (!bucket_make(r->state, &r->buckets[i], PyList_GetItem(buckets, i)))
            return false;
    for (Py_ssize_t i = 0; i < r->gradient_count; i++)
        if (!gradient_make(r->state, &r->gradients[i], PyList_GetItem(gradients, i)) ||
            !join_bucket(r, &r->gradients[i]))
            return false;
    return true;
}

static PyObject *new_reducer(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"state", "gradients", "buckets",   "begin", "slow",
                            "full",  "task_id",   "may_go_on", NULL};
    PyObject *module, *gradients, *buckets, *begin, *slow, *full, *task_id;
    int may_go_on;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO!O!OOOOp", names, &module, &PyList_Type,
                                     &gradients, &PyList_Type, &buckets, &begin, &slow, &full,
                                     &task_id, &may_go_on))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    reducer *r = (reducer *)allocate(type, 0);
    if (r == NULL)
        return NULL;
    r->state = native_state(module);
    r->generation = r->state->generation;
    r->task = -1;
    r->enabled = true;
    r->may_go_on = may_go_on;
    Py_INCREF(r->begin = begin);
    Py_INCREF(r->slow = slow);
    Py_INCREF(r->full = full);
    Py_INCREF(r->task_id = task_id);
    if (!make_all(r, gradients, buckets)) {
        Py_DECREF((PyObject *)r);
        return NULL;
    }
    return (PyObject *)r;
}

static int traverse(PyObject *object, visitproc visit, void *arg)
{
    reducer *r = (reducer *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(r->begin);
    Py_VISIT(r->slow);
    Py_VISIT(r->full);
    Py_VISIT(r->task_id);
    return 0;
}

static int clear(PyObject *object)
{
    reducer *r = (reducer *)object;
    Py_CLEAR(r->begin);
    Py_CLEAR(r->slow);
    Py_CLEAR(r->full);
    Py_CLEAR(r->task_id);
    return 0;
}

static void dealloc(PyObject *object)
{
    reducer *r = (reducer *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    clear(object);
    for (Py_ssize_t i = 0; r->buckets != NULL && i < r->bucket_count; i++)
        bucket_release(r->state, &r->buckets[i]);
    for (Py_ssize_t i = 0; r->gradients != NULL && i < r->gradient_count; i++)
        Py_XDECREF(r->gradients[i].view);
    free(r->buckets);
    free(r->gradients);
    PyObject_GC_Del(r);
    Py_DECREF((PyObject *)type);
}

/* ---- A round ------------------------------------------------------------------------------------ */

static bool submit(reducer *r, bucket *b)
{
    if (b->pending->keep == Py_None) {
        PyObject *result = PyObject_CallFunction(r->full, "n", (Py_ssize_t)(b - r->buckets));
        Py_XDECREF(result);
        return result != NULL;
    }
    if (!native_open(r->state))
        return false;
    if (r->generation != r->state->generation)
        return true; /* ranks agree anew: finish() starts over with all gradients */
    return bucket_submit(r->state, b);
}

bool reducer_arrive(reducer *r, gradient *g, bool present)
{
    if (g->arrived) {
        PyErr_SetString(r->state->error,
                        "a gradient was computed twice before its communication had ended; call "
                        "zero_grad() after a backward pass that failed");
        return false;
    }
    g->arrived = true;
    if (g->bucket < 0)
        return true;
    bucket *b = &r->buckets[g->bucket];
    if (g->flag != NULL)
        bucket_write_flag(b, g->flag, present);
    return ++b->arrived < b->members || submit(r, b);
}

static bool nobody_had(const reducer *r, const gradient *g)
{
    return g->bucket >= 0 && g->flag != NULL &&
           bucket_flag_is_zero(&r->buckets[g->bucket], g->flag);
}

/* ---- Methods ------------------------------------------------------------------------------------ */

static gradient *gradient_at(reducer *r, PyObject *index)
{
    const Py_ssize_t i = PyLong_AsSsize_t(index);
    if (i >= 0 && i < r->gradient_count)
        return &r->gradients[i];
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_IndexError, "no such parameter");
    return NULL;
}

static PyObject *hook_method(PyObject *object, PyObject *index)
{
    reducer *r = (reducer *)object;
    const gradient *g = gradient_at(r, index);
    return g == NULL ? NULL : hook_new(r, g - r->gradients);
}

static PyObject *arrive_method(PyObject *object, PyObject *args)
{
    reducer *r = (reducer *)object;
    PyObject *index;
    int present;
    if (!PyArg_ParseTuple(args, "Op:arrive", &index, &present))
        return NULL;
    gradient *g = gradient_at(r, index);
    if (g == NULL)
        return NULL;
    r->open = true;
    if (!reducer_arrive(r, g, present))
        return NULL;
    Py_RETURN_NONE;
}

static bool is_missing(const reducer *r, const gradient *g)
{
    (void)r;
    return !g->arrived;
}

static PyObject *list_gradients(const reducer *r, bool (*wanted)(const reducer *, const gradient *))
{
    PyObject *list = PyList_New(0);
    for (Py_ssize_t i = 0; i < r->gradient_count && list != NULL; i++) {
        if (!wanted(r, &r->gradients[i]))
            continue;
        PyObject *index = PyLong_FromSsize_t(i);
        if (index == NULL || PyList_Append(list, index) != 0)
            Py_CLEAR(list);
        Py_XDECREF(index);
    }
    return list;
}

static PyObject *missing_method(PyObject *object, PyObject *unused)
{
    (void)unused;
    return list_gradients((reducer *)object, is_missing);
}

static PyObject *finish_method(PyObject *object, PyObject *unused)
{
    (void)unused;
    reducer *r = (reducer *)object;
    rueda_status first = RUEDA_OK;
    char sentence[SENTENCE_BYTES] = "";
    for (Py_ssize_t i = 0; i < r->bucket_count; i++)
        if (!bucket_end(r->state, &r->buckets[i], &first, sentence))
            return NULL;
    for (Py_ssize_t i = 0; i < r->bucket_count; i++)
        r->buckets[i].arrived = 0;
    for (Py_ssize_t i = 0; i < r->gradient_count; i++)
        r->gradients[i].arrived = r->gradients[i].fresh = false;
    r->open = false;
    r->task = -1;
    if (first != RUEDA_OK)
        return native_raise_text(r->state, first, sentence);
    return list_gradients(r, nobody_had);
}

static PyObject *fresh_method(PyObject *object, PyObject *index)
{
    const gradient *g = gradient_at((reducer *)object, index);
    return g == NULL ? NULL : PyBool_FromLong(g->fresh);
}

static PyObject *reset_method(PyObject *object, PyObject *passes)
{
    reducer *r = (reducer *)object;
    const long count = PyLong_AsLong(passes);
    if (PyErr_Occurred())
        return NULL;
    for (Py_ssize_t i = 0; i < r->gradient_count; i++)
        r->gradients[i].passes_left = count;
    Py_RETURN_NONE;
}

static PyObject *get_enabled(PyObject *object, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((reducer *)object)->enabled);
}

static int set_enabled(PyObject *object, PyObject *value, void *unused)
{
    (void)unused;
    const int truth = value == NULL ? -1 : PyObject_IsTrue(value);
    if (truth >= 0)
        ((reducer *)object)->enabled = truth;
    return truth < 0 ? -1 : 0;
}

static PyObject *get_open(PyObject *object, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((reducer *)object)->open);
}

static PyMethodDef methods[] = {
    {"hook", hook_method, METH_O,
     "hook(parameter)\n\nThe callable to register as the parameter's post-accumulate-grad hook."},
    {"arrive", arrive_method, METH_VARARGS,
     "arrive(parameter, present)\n\nSays that a parameter's place in its bucket is filled; submits a full bucket. "
     "`present`: this rank has a gradient there."},
    {"missing", missing_method, METH_NOARGS,
     "missing() -> list\n\nSlots that have not arrived in this round."},
    {"finish", finish_method, METH_NOARGS,
     "finish() -> list\n\nBlocks until all buckets of the round have been combined, and ends the round. "
     "The parameters for which no rank had a gradient."},
    {"is_fresh", fresh_method, METH_O,
     "is_fresh(parameter) -> bool\n\nWhether a backward pass has added to the gradient since the last round."},
    {"reset", reset_method, METH_O,
     "reset(passes)\n\nBackward passes until gradients are combined."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef properties[] = {
    {"enabled", get_enabled, set_enabled, "Whether the hooks do anything.", NULL},
    {"open", get_open, NULL, "Whether gradients have arrived that finish() has not seen.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot reducer_slots[] = {
    {Py_tp_new, new_reducer},
    {Py_tp_dealloc, dealloc},
    {Py_tp_traverse, traverse},
    {Py_tp_clear, clear},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_doc, "Gradients of one optimizer on their way; see reducer.h."},
    {0, NULL}};

PyType_Spec reducer_spec = {.name = "rueda._native.Reducer",
                            .basicsize = sizeof(reducer),
                            .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                            .slots = reducer_slots};
