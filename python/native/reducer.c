/* reducer.c: what happens to a gradient when the backward pass has computed it.
 *
 * A reducer has one slot for each parameter and some buckets. A slot's hook runs after its gradient was
 * accumulated: it counts the pass, moves the gradient into its place in the bucket, makes that place
 * the parameter's .grad, and submits the bucket when it is full. All of it is C, because it runs for
 * every parameter of every step; whatever is not the common case (sparse, strange strides, another type
 * on the wire, the first pass, which only learns the order) is handed to `slow`, a Python callable.
 *
 * A round lasts from the first gradient until finish(). Invariant: a bucket is submitted once a round,
 * when all of its slots have arrived, and nobody writes into it until its request has ended.
 */
#include "native.h"

#include <stdlib.h>
#include <string.h>

typedef struct slot {
    PyObject *view; /* its place in the bucket, shaped like the parameter; NULL: always slow */
    dl_tensor look; /* of the view; shape and strides point into `extents` */
    int64_t extents[2 * RUEDA_MAX_DIMS];
    size_t bytes;
    char *flag; /* where the bucket says that this rank has a gradient; NULL: nowhere */
    Py_ssize_t bucket;
    long passes_left;
    bool arrived;
    bool fresh; /* a backward pass has added to the gradient since it was last combined */
} slot;

typedef struct bucket {
    PyObject *flat; /* None: `full` submits it */
    tensor_info info;
    char name[RUEDA_MAX_NAME + 1];
    rueda_options options;
    Py_ssize_t members, arrived;
    rueda_request *request;
} bucket;

typedef struct reducer {
    PyObject_HEAD
    native *state;
    slot *slots;
    Py_ssize_t slot_count;
    bucket *buckets;
    Py_ssize_t bucket_count;
    PyObject *begin, *slow, *full, *task_id;
    long task;           /* the backward pass last seen */
    bool enabled;        /* hooks do something */
    bool open;           /* within a round */
    bool may_go_on;      /* more passes than announced are fine */
    unsigned generation; /* of the job that the buckets belong to */
} reducer;

typedef struct hook {
    PyObject_HEAD
    reducer *owner;
    Py_ssize_t index;
} hook;

/* ---- Making ------------------------------------------------------------------------------------- */

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

static bool make_slot(reducer *r, slot *s, PyObject *row)
{
    PyObject *view;
    unsigned long long flag;
    if (!PyArg_ParseTuple(row, "OnKl", &view, &s->bucket, &flag, &s->passes_left))
        return false;
    if (s->bucket < -1 || s->bucket >= r->bucket_count) {
        PyErr_SetString(PyExc_ValueError, "a slot names a bucket that is not there");
        return false;
    }
    s->flag = (char *)(uintptr_t)flag;
    if (s->bucket >= 0)
        r->buckets[s->bucket].members++;
    if (view != Py_None) {
        Py_INCREF(view);
        s->view = view;
        if (!keep_look(r->state, s))
            Py_CLEAR(s->view);
    }
    return true;
}

static bool make_bucket(reducer *r, bucket *b, PyObject *row)
{
    const char *name;
    PyObject *flat, *options[5];
    if (!PyArg_ParseTuple(row, "OsOOOOO", &flat, &name, &options[0], &options[1], &options[2],
                          &options[3], &options[4]) ||
        !native_read_options(options, &b->options))
        return false;
    Py_INCREF(flat);
    b->flat = flat;
    strncpy(b->name, name, RUEDA_MAX_NAME);
    if (flat != Py_None && !tensor_read(r->state, flat, &b->info))
        return false;
    b->info.tensor.name = b->name;
    return true;
}

static bool make_all(reducer *r, PyObject *slots, PyObject *buckets)
{
    r->bucket_count = PyList_Size(buckets);
    r->slot_count = PyList_Size(slots);
    r->buckets = calloc((size_t)r->bucket_count + 1, sizeof *r->buckets);
    r->slots = calloc((size_t)r->slot_count + 1, sizeof *r->slots);
    if (r->buckets == NULL || r->slots == NULL)
        return PyErr_NoMemory(), false;
    for (Py_ssize_t i = 0; i < r->bucket_count; i++)
        if (!make_bucket(r, &r->buckets[i], PyList_GetItem(buckets, i)))
            return false;
    for (Py_ssize_t i = 0; i < r->slot_count; i++)
        if (!make_slot(r, &r->slots[i], PyList_GetItem(slots, i)))
            return false;
    return true;
}

static PyObject *new_reducer(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"state", "slots",   "buckets",   "begin", "slow",
                            "full",  "task_id", "may_go_on", NULL};
    PyObject *module, *slots, *buckets, *begin, *slow, *full, *task_id;
    int may_go_on;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO!O!OOOOp", names, &module, &PyList_Type,
                                     &slots, &PyList_Type, &buckets, &begin, &slow, &full, &task_id,
                                     &may_go_on))
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
    if (!make_all(r, slots, buckets)) {
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
    for (Py_ssize_t i = 0; r->buckets != NULL && i < r->bucket_count; i++) {
        bucket *b = &r->buckets[i];
        if (b->request != NULL) /* an orphan keeps the memory until the operation has ended */
            Py_XDECREF(request_wrap(r->state, b->request, b->flat, b->info.tensor.dtype));
        else
            Py_XDECREF(b->flat);
    }
    for (Py_ssize_t i = 0; r->slots != NULL && i < r->slot_count; i++)
        Py_XDECREF(r->slots[i].view);
    free(r->buckets);
    free(r->slots);
    PyObject_GC_Del(r);
    Py_DECREF((PyObject *)type);
}

/* ---- The hot path ------------------------------------------------------------------------------- */

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

/* Moves a gradient into its place and makes that place the gradient. 1: done, 0: not this way, -1:
 * exception. */
static int take_gradient(reducer *r, slot *s, PyObject *parameter)
{
    PyObject *grad = PyObject_GetAttr(parameter, r->state->grad_name);
    if (grad == NULL)
        return -1;
    dl_tensor look;
    int done = grad == s->view;
    if (!done && grad != Py_None && tensor_look(r->state, grad, &look) &&
        (look.strides != NULL || look.ndim == 0) && same_layout(&look, &s->look)) {
        memcpy((char *)s->look.data + s->look.byte_offset, (char *)look.data + look.byte_offset,
               s->bytes);
        done = PyObject_SetAttr(parameter, r->state->grad_name, s->view) == 0 ? 1 : -1;
    }
    Py_DECREF(grad);
    return done;
}

/* "This rank has a gradient here": one or zero in the type of the bucket. */
static void write_flag(const bucket *b, char *flag, bool present)
{
    const uint16_t half = present ? 0x3C00 : 0, brain = present ? 0x3F80 : 0;
    const float single = present;
    const double large = present;
    switch (b->info.tensor.dtype) {
    case RUEDA_F16:
        memcpy(flag, &half, sizeof half);
        break;
    case RUEDA_BF16:
        memcpy(flag, &brain, sizeof brain);
        break;
    case RUEDA_F64:
        memcpy(flag, &large, sizeof large);
        break;
    default:
        memcpy(flag, &single, sizeof single);
        break;
    }
}

/* Whether, after the round, no rank had a gradient here. */
static bool nobody_had(const reducer *r, const slot *s)
{
    static const char zeros[sizeof(double)] = {0};
    return s->bucket >= 0 && s->flag != NULL &&
           memcmp(s->flag, zeros, rueda_dtype_bytes(r->buckets[s->bucket].info.tensor.dtype)) == 0;
}

static bool submit_bucket(reducer *r, bucket *b)
{
    if (b->flat == Py_None) {
        PyObject *result = PyObject_CallFunction(r->full, "n", (Py_ssize_t)(b - r->buckets));
        Py_XDECREF(result);
        return result != NULL;
    }
    if (!native_open(r->state))
        return false;
    if (r->generation != r->state->generation)
        return true; /* the job was left and joined again: finish() starts over with all gradients */
    const rueda_status status = rueda_allreduce(&b->info.tensor, &b->options, &b->request);
    if (status != RUEDA_OK)
        native_raise(r->state, status);
    return status == RUEDA_OK;
}

static bool arrive(reducer *r, slot *s, bool present)
{
    if (s->arrived) {
        PyErr_SetString(r->state->error,
                        "a gradient was computed twice before its communication had ended; call "
                        "zero_grad() after a backward pass that failed");
        return false;
    }
    s->arrived = true;
    if (s->bucket < 0)
        return true;
    bucket *b = &r->buckets[s->bucket];
    if (s->flag != NULL)
        write_flag(b, s->flag, present);
    return ++b->arrived < b->members || submit_bucket(r, b);
}

/* Counts the pass; false: this gradient is still to be accumulated, or (with an exception) must not be. */
static bool count_pass(reducer *r, slot *s)
{
    if (s->passes_left <= 0 && !r->may_go_on)
        PyErr_SetString(
            PyExc_AssertionError,
            "gradients were computed more than backward_passes_per_step times before "
            "step(): raise backward_passes_per_step, or call step() or zero_grad() first");
    else if (s->passes_left > 0)
        s->passes_left--;
    return s->passes_left <= 0 && !PyErr_Occurred();
}

static bool take_slowly(reducer *r, Py_ssize_t index, PyObject *parameter)
{
    PyObject *result = PyObject_CallFunction(r->slow, "nO", index, parameter);
    Py_XDECREF(result);
    return result != NULL;
}

static bool run_hook(reducer *r, Py_ssize_t index, PyObject *parameter)
{
    slot *s = &r->slots[index];
    if (r->generation != r->state->generation)
        return take_slowly(r, index, parameter); /* Python starts over in the new job */
    if (!count_pass(r, s))
        return !PyErr_Occurred();
    if (!begin_task(r))
        return false;
    const int taken = s->view == NULL || s->arrived ? 0 : take_gradient(r, s, parameter);
    if (taken < 0)
        return false;
    if (taken == 0 && !s->arrived && !take_slowly(r, index, parameter))
        return false;
    return arrive(r, s, true);
}

static PyObject *call_hook(PyObject *object, PyObject *args, PyObject *keywords)
{
    (void)keywords;
    const hook *h = (hook *)object;
    h->owner->slots[h->index].fresh = true;
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

/* ---- Methods ------------------------------------------------------------------------------------ */

static slot *slot_at(reducer *r, PyObject *index)
{
    const Py_ssize_t i = PyLong_AsSsize_t(index);
    if (i >= 0 && i < r->slot_count)
        return &r->slots[i];
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_IndexError, "no such slot");
    return NULL;
}

static PyObject *hook_method(PyObject *object, PyObject *index)
{
    reducer *r = (reducer *)object;
    const slot *s = slot_at(r, index);
    hook *h = s == NULL ? NULL : PyObject_GC_New(hook, r->state->hook_type);
    if (h == NULL)
        return NULL;
    Py_INCREF(object);
    h->owner = r;
    h->index = s - r->slots;
    PyObject_GC_Track((PyObject *)h);
    return (PyObject *)h;
}

static PyObject *arrive_method(PyObject *object, PyObject *args)
{
    reducer *r = (reducer *)object;
    PyObject *index;
    int present;
    if (!PyArg_ParseTuple(args, "Op:arrive", &index, &present))
        return NULL;
    slot *s = slot_at(r, index);
    if (s == NULL)
        return NULL;
    r->open = true;
    if (!arrive(r, s, present))
        return NULL;
    Py_RETURN_NONE;
}

static bool is_missing(const reducer *r, const slot *s)
{
    (void)r;
    return !s->arrived;
}

static PyObject *list_slots(const reducer *r, bool (*wanted)(const reducer *, const slot *))
{
    PyObject *list = PyList_New(0);
    for (Py_ssize_t i = 0; i < r->slot_count && list != NULL; i++) {
        PyObject *index = wanted(r, &r->slots[i]) ? PyLong_FromSsize_t(i) : NULL;
        if (index != NULL && PyList_Append(list, index) != 0)
            Py_CLEAR(list);
        Py_XDECREF(index);
    }
    return list;
}

static PyObject *missing_method(PyObject *object, PyObject *unused)
{
    (void)unused;
    return list_slots((reducer *)object, is_missing);
}

/* Ends a bucket's request. False with an exception: Ctrl-C; the request stays. */
static bool end_bucket(reducer *r, bucket *b, rueda_status *first, char text[512])
{
    rueda_status status;
    if (b->request == NULL)
        return true;
    if (!request_wait(r->state, b->request, -1, &status))
        return false;
    if (status != RUEDA_OK && *first == RUEDA_OK) {
        *first = status;
        strncpy(text, rueda_error(), 511);
    }
    rueda_request_free(b->request);
    b->request = NULL;
    return true;
}

static PyObject *finish_method(PyObject *object, PyObject *unused)
{
    (void)unused;
    reducer *r = (reducer *)object;
    rueda_status first = RUEDA_OK;
    char text[512] = "";
    for (Py_ssize_t i = 0; i < r->bucket_count; i++)
        if (!end_bucket(r, &r->buckets[i], &first, text))
            return NULL;
    for (Py_ssize_t i = 0; i < r->bucket_count; i++)
        r->buckets[i].arrived = 0;
    for (Py_ssize_t i = 0; i < r->slot_count; i++)
        r->slots[i].arrived = r->slots[i].fresh = false;
    r->open = false;
    r->task = -1;
    if (first != RUEDA_OK) {
        PyErr_SetString(r->state->error, text);
        return NULL;
    }
    return list_slots(r, nobody_had);
}

static PyObject *fresh_method(PyObject *object, PyObject *index)
{
    const slot *s = slot_at((reducer *)object, index);
    return s == NULL ? NULL : PyBool_FromLong(s->fresh);
}

static PyObject *reset_method(PyObject *object, PyObject *passes)
{
    reducer *r = (reducer *)object;
    const long count = PyLong_AsLong(passes);
    if (PyErr_Occurred())
        return NULL;
    for (Py_ssize_t i = 0; i < r->slot_count; i++)
        r->slots[i].passes_left = count;
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
     "hook(slot)\n\nThe callable to register as the parameter's post-accumulate-grad hook."},
    {"arrive", arrive_method, METH_VARARGS,
     "arrive(slot, present)\n\nSays that a slot's place in its bucket is filled; submits a full bucket. "
     "`present`: this rank has a gradient there."},
    {"missing", missing_method, METH_NOARGS,
     "missing() -> list\n\nSlots that have not arrived in this round."},
    {"finish", finish_method, METH_NOARGS,
     "finish() -> list\n\nBlocks until all buckets of the round have been combined, and ends the round. "
     "The slots for which no rank had a gradient."},
    {"is_fresh", fresh_method, METH_O,
     "is_fresh(slot) -> bool\n\nWhether a backward pass has added to the gradient since the last round."},
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
    {Py_tp_doc, "Gradients of one optimizer on their way; see reducer.c."},
    {0, NULL}};

PyType_Spec reducer_spec = {.name = "rueda._native.Reducer",
                            .basicsize = sizeof(reducer),
                            .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                            .slots = reducer_slots};

static PyType_Slot hook_slots[] = {{Py_tp_dealloc, dealloc_hook},
                                   {Py_tp_traverse, traverse_hook},
                                   {Py_tp_call, call_hook},
                                   {0, NULL}};

PyType_Spec hook_spec = {.name = "rueda._native.Hook",
                         .basicsize = sizeof(hook),
                         .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
                                  Py_TPFLAGS_DISALLOW_INSTANTIATION,
                         .slots = hook_slots};
