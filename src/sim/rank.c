/* rank.c: the life of a simulated rank: it joins the job, does its tasks, looks at the results, and leaves. It uses
 * the library as any program does. */
#include "sim/job.h"
#include "sim/values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATTERN 0xa5
#define GROUP_PARTS 3 /* tensors of a group */
#define GROUP_NAME 24 /* bytes of the name of one */
#define LONER_COUNT 8 /* elements of what nobody else submits */
#define SHORT_MS 1    /* a wait that often ends before its request; the next one is twice as long */
#define POLL_NS UINT64_C(2000000)
#define PATIENCE_MS 3000 /* of a rank that has ended its part, for what it has submitted */
/* A broken rank waits up to so long before it looks at its memory: a stopped one may go on meanwhile. */
#define LINGER_MOST_NS UINT64_C(10000000000)
#define NEAR_NS UINT64_C(100000) /* the latency of a network inside of a room, at most */
/* Four times what was seen, and less than anybody sleeps who is not woken. */
#define PROMPT_NS UINT64_C(20000000)
#define HEAP_BYTES "33554432"
#define TEXT_OF(number) #number
#define MEETING(host, port) host ":" TEXT_OF(port)

/* ---- Memory ------------------------------------------------------------------------------------- */

static void *take_buffer(job_rank *r, size_t size, bool shared)
{
    buffer *b = calloc(1, sizeof *b);
    if (b == NULL)
        return NULL;
    b->size = size;
    b->shared = shared && size > 0;
    b->bytes = b->shared ? context_alloc(&r->here, size) : malloc(size + 1);
    if (b->bytes == NULL)
        return free(b), NULL;
    b->next = r->buffers;
    r->buffers = b;
    return b->bytes;
}

/* All requests have ended, but those that end with the shutdown. */
static void mark_buffers(job_rank *r)
{
    for (buffer *b = r->buffers; b != NULL && r->pending_count == 0; b = b->next) {
        if (b->is_lent)
            continue;
        if (!b->is_ours)
            memset(b->bytes, PATTERN, b->size);
        b->is_ours = true;
    }
}

static void lend_buffers(const job_rank *r, const buffer *but)
{
    for (buffer *b = r->buffers; b != but; b = b->next)
        b->is_lent = true;
}

static void return_buffers(const job_rank *r)
{
    for (buffer *b = r->buffers; b != NULL; b = b->next)
        b->is_lent = false;
}

/* Invariant: nobody touches memory after its request has ended. */
static void check_buffers(job_rank *r, const char *when)
{
    for (const buffer *b = r->buffers; b != NULL; b = b->next) {
        for (size_t i = 0; b->is_ours && i < b->size; i++) {
            if (b->bytes[i] != PATTERN)
                job_fail(r->job, INVARIANT_MEMORY,
                         "rank %d: byte %zu of %zu (%s memory) was changed after its request had "
                         "ended; seen %s",
                         r->rank, i, b->size, b->shared ? "shared" : "own", when);
        }
    }
}

static void free_buffers(job_rank *r)
{
    while (r->buffers != NULL) {
        buffer *b = r->buffers;
        r->buffers = b->next;
        if (b->shared)
            heap_free(&r->here.heap, b->bytes);
        else
            free(b->bytes);
        free(b);
    }
}

/* ---- One task ------------------------------------------------------------------------------------ */

typedef struct errand {
    const task *task;
    rueda_request *request;
    void *output;
    int row;             /* in the timeline */
    uint64_t started_ns; /* when it was submitted */
} errand;

/* The tensor in parts of equal size, but for the last. */
static rueda_status call_group(const job_rank *r, const task *k, const rueda_tensor *whole,
                               const rueda_options *options, rueda_request **request)
{
    rueda_tensor parts[GROUP_PARTS];
    char names[GROUP_PARTS][GROUP_NAME];
    int64_t shapes[GROUP_PARTS][1];
    const size_t each = rueda_dtype_bytes(k->dtype);
    for (uint32_t i = 0; i < GROUP_PARTS; i++) {
        const uint32_t part = k->count / GROUP_PARTS, first = i * part;
        shapes[i][0] = i + 1 < GROUP_PARTS ? part : k->count - first;
        snprintf(names[i], sizeof names[i], "%s.%u", k->name, i);
        parts[i] =
            RUEDA_TENSOR(names[i], (uint8_t *)whole->input + first * each, k->dtype, 1, shapes[i]);
        if (whole->output == NULL)
            continue;
        parts[i].output = (uint8_t *)whole->output + first * each;
        parts[i].output_bytes = (size_t)shapes[i][0] * each;
    }
    return context_grouped_allreduce(&r->here, parts, GROUP_PARTS, options, request);
}

static rueda_status call_message(const job_rank *r, const task *k, const rueda_tensor *tensor,
                                 const rueda_options *options, rueda_request **request)
{
    if (r->rank == k->root)
        return context_send(&r->here, tensor, k->peer, options, request);
    return context_recv(&r->here, tensor, k->from_anyone ? RUEDA_ANY_RANK : k->root, options,
                        request);
}

static rueda_status call(job_rank *r, const task *k, const rueda_tensor *tensor,
                         rueda_options *options, rueda_request **request)
{
    const context *c = &r->here;
    switch (k->kind) {
#define TASK_CALL(NAME, name)                                                                      \
    case TASK_##NAME:                                                                              \
        return context_##name(c, tensor, options, request);
        TASK_CALL(ALLREDUCE, allreduce)
        TASK_CALL(ALLGATHER, allgather)
        TASK_CALL(BROADCAST, broadcast)
        TASK_CALL(ALLTOALL, alltoall)
        TASK_CALL(REDUCESCATTER, reducescatter)
        TASK_CALL(REDUCE, reduce)
        TASK_CALL(GATHER, gather)
        TASK_CALL(SCATTER, scatter)
    case TASK_GROUP:
        return call_group(r, k, tensor, options, request);
    case TASK_BARRIER:
        return context_barrier(c, options->process_set, request);
    case TASK_MESSAGE:
        return call_message(r, k, tensor, options, request);
    case TASK_KINDS:
        break;
    }
    return RUEDA_ERR_ARGUMENT;
}

/* Whether the library is to provide the memory of the result. */
static bool takes_output(const task *k)
{
    return k->takes &&
           (k->kind == TASK_ALLGATHER || k->kind == TASK_ALLTOALL ||
            k->kind == TASK_REDUCESCATTER || k->kind == TASK_GATHER || k->kind == TASK_SCATTER);
}

static bool may_be_in_place(const task *k)
{
    return k->in_place && (k->kind == TASK_ALLREDUCE || k->kind == TASK_GROUP ||
                           k->kind == TASK_BROADCAST || k->kind == TASK_REDUCE);
}

static const int64_t *splits_of(const job_rank *r, const task *k, int64_t splits[TRIAL_RANKS])
{
    const trial *t = r->job->trial;
    for (int i = 0; i < t->sets[k->set].size; i++)
        splits[i] = (int64_t)values_split(k, trial_index(t, k->set, r->rank), i);
    return k->kind == TASK_ALLTOALL || (k->kind == TASK_SCATTER && r->rank == k->root) ? splits
                                                                                       : NULL;
}

static rueda_status submit(job_rank *r, errand *e, void *input, void *output, uint64_t out_count)
{
    const task *k = e->task;
    const int64_t shape[] = {(int64_t)values_in_count(r->job->trial, k, r->rank), 1, 1};
    int64_t splits[TRIAL_RANKS];
    rueda_tensor tensor =
        RUEDA_TENSOR(k->unnamed ? NULL : k->name, input, k->dtype, k->ndim, shape);
    if (output != input && !takes_output(k)) {
        tensor.output = output;
        tensor.output_bytes = out_count * rueda_dtype_bytes(k->dtype);
    }
    rueda_options options = RUEDA_OPTIONS(k->op);
    options.process_set = r->sets[k->set];
    options.root = k->root;
    options.priority = k->priority * (1 + r->rank % 2); /* that of the first to speak counts */
    options.prescale = k->prescale;
    options.postscale = k->postscale;
    options.splits = splits_of(r, k, splits);
    return call(r, k, &tensor, &options, &e->request);
}

static rueda_status start(job_rank *r, errand *e)
{
    const trial *t = r->job->trial;
    const task *k = e->task;
    const buffer *before = r->buffers;
    const size_t each = rueda_dtype_bytes(k->dtype);
    const uint64_t in_count = values_in_count(t, k, r->rank),
                   out_count = values_out_count(t, k, r->rank);
    uint8_t *input = take_buffer(r, in_count * each, k->shared);
    uint8_t *output =
        may_be_in_place(k) || input == NULL ? input : take_buffer(r, out_count * each, k->shared);
    if (input == NULL || output == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "rank %d has no memory for a tensor", r->rank);
    values_fill(t, k, r->rank, input);
    e->output = output;
    const rueda_status status = submit(r, e, input, output, out_count);
    if (status == RUEDA_OK && k->forgotten) {
        lend_buffers(r, before);
        rueda_request_free(e->request);
        e->request = NULL;
    }
    return status;
}

/* Invariant: results equal the plain calculation. */
static void check_result(job_rank *r, const errand *e)
{
    char wrong[200];
    rueda_output taken = RUEDA_OUTPUT;
    const trial *t = r->job->trial;
    const task *k = e->task;
    const uint64_t bytes = values_out_count(t, k, r->rank) * rueda_dtype_bytes(k->dtype);
    const bool takes = takes_output(k) && rueda_take_output(e->request, &taken) == RUEDA_OK;
    if (takes_output(k) && (!takes || taken.bytes != bytes))
        job_fail(r->job, INVARIANT_RESULTS, "rank %d has a wrong result: %s '%s' gives %zu bytes",
                 r->rank, task_name(k->kind), k->name, taken.bytes);
    else if (!values_check(t, k, r->rank, takes ? taken.data : e->output, wrong, sizeof wrong))
        job_fail(r->job, INVARIANT_RESULTS, "rank %d has a wrong result: %s", r->rank, wrong);
    rueda_output_free(&taken);
}

/* Where nothing is in the way: no mishaps, nobody is kept from running, and no host is far. */
static bool is_undisturbed(const job *j)
{
    const sim_settings *s = sim_settings_of(j->world);
    return j->trial->mishap_count == 0 && !j->trial->has_stranger && s->preempt_chance == 0 &&
           s->latency_most_ns <= NEAR_NS;
}

/* Invariant: nobody sleeps while there is something to do for it. As all who sleep look by themselves from time to
 * time, a wake-up that is lost costs time only: the operation takes longer than it can need. */
static void check_prompt(job_rank *r, const task *k)
{
    const uint64_t submitted = r->job->submitted_ns[k->number];
    const uint64_t since = submitted > r->waited_ns ? submitted : r->waited_ns;
    const uint64_t took = sim_now(r->job->world) - since;
    const bool absent = k->absent != 0; /* it waits for those who join */
    if (is_undisturbed(r->job) && !absent && took > PROMPT_NS)
        job_fail(r->job, INVARIANT_PROMPT,
                 "rank %d waited %.1f ms for %s '%s' since all ranks had submitted it, and nothing "
                 "was in the way",
                 r->rank, (double)took / 1e6, task_name(k->kind), k->name);
}

/* Its part in the job is over early. */
void rank_give_up(job_rank *r, rueda_status status)
{
    if (r->status != RUEDA_OK)
        return;
    r->status = status;
    snprintf(r->text, sizeof r->text, "%s", status_text());
    r->ended_ns = sim_now(r->job->world);
    job_tell(r->job, "rank %d ends: %s", r->rank, r->text);
    timeline_moment(r, "ends early");
}

/* Who has ended its part does not wait for ever: the others may never submit what it has. */
static rueda_status wait_for(const job_rank *r, rueda_request *request, waiting how)
{
    rueda_status status = RUEDA_PENDING;
    if (r->status != RUEDA_OK)
        return context_wait(&r->here, request, PATIENCE_MS);
    for (int64_t ms = SHORT_MS; how == WAIT_SHORT && status == RUEDA_PENDING; ms *= 2)
        status = context_wait(&r->here, request, ms);
    while (how == WAIT_POLL && !rueda_poll(request))
        world_rest(POLL_NS);
    return status == RUEDA_PENDING ? context_wait(&r->here, request, -1) : status;
}

static bool finish(job_rank *r, errand *e, waiting how)
{
    r->waited_ns = sim_now(r->job->world);
    const rueda_status status = wait_for(r, e->request, how);
    if (status == RUEDA_OK)
        check_prompt(r, e->task);
    timeline_span(r, 1 + e->row, e->task->name, e->started_ns);
    r->waited_ns = 0;
    if (status == RUEDA_OK)
        check_result(r, e);
    else
        rank_give_up(r, status);
    if (status == RUEDA_PENDING)
        r->pending[r->pending_count++] = e->request;
    else
        rueda_request_free(e->request);
    e->request = NULL;
    return status == RUEDA_OK;
}

/* ---- Batches ------------------------------------------------------------------------------------- */

/* Each rank submits in an order of its own. */
static int list_errands(const job_rank *r, const batch *b, errand *errands)
{
    int count = 0;
    for (int i = 0; i < b->count; i++) {
        if (trial_takes_part(r->job->trial, &b->tasks[i], r->rank))
            errands[count++] = (errand){.task = &b->tasks[i], .row = i};
    }
    for (int i = count - 1; i > 0 && !b->one_by_one; i--) {
        const int other = (int)sim_random(r->job->world, (uint64_t)i + 1);
        const errand kept = errands[i];
        errands[i] = errands[other];
        errands[other] = kept;
    }
    return count;
}

static bool join(job_rank *r)
{
    const rueda_status status = context_join(&r->here, NULL);
    const int last = atomic_load(&context_peek(&r->here)->last_joined);
    if (status != RUEDA_OK)
        rank_give_up(r, status);
    else if (last < 0 || last >= r->job->trial->ranks)
        job_fail(r->job, INVARIANT_RESULTS, "rank %d has a wrong result: %d joined last", r->rank,
                 last);
    return status == RUEDA_OK;
}

static void wait_together(const job_rank *r, const errand *errands, int count)
{
    rueda_request *all[TRIAL_TASKS];
    size_t pending = 0;
    for (int i = 0; i < count; i++) {
        if (errands[i].request != NULL)
            all[pending++] = errands[i].request;
    }
    context_wait_all(&r->here, all, pending, -1);
}

/* How many of them were submitted; *good: all. */
static int start_all(job_rank *r, const batch *b, errand *errands, int count, bool *good)
{
    int started = 0;
    for (; started < count && *good; started++) {
        errand *e = &errands[started];
        e->started_ns = sim_now(r->job->world);
        const rueda_status status = start(r, e);
        r->job->submitted_ns[e->task->number] = sim_now(r->job->world);
        if (status != RUEDA_OK)
            rank_give_up(r, status);
        *good = status == RUEDA_OK &&
                (!b->one_by_one || e->request == NULL || finish(r, e, b->waiting));
    }
    return started;
}

static bool do_batch(job_rank *r, const batch *b)
{
    errand errands[TRIAL_TASKS];
    const int count = list_errands(r, b, errands);
    bool good = true;
    world_rest(sim_random(r->job->world, b->compute_ns + 1));
    const int started = start_all(r, b, errands, count, &good);
    if (good && b->joins)
        good = join(r);
    if (good && b->waiting == WAIT_TOGETHER)
        wait_together(r, errands, started);
    for (int i = 0; i < started; i++) {
        if (errands[i].request != NULL)
            good = finish(r, &errands[i], b->waiting) && good;
    }
    mark_buffers(r);
    check_buffers(r, "after the next batch");
    return good;
}

/* ---- Joining and leaving -------------------------------------------------------------------------- */

static void set_number(const char *name, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    setenv(name, text, 1);
}

static void count_hosts(const job_rank *r, int *local_rank, int *local_size)
{
    const trial *t = r->job->trial;
    *local_rank = *local_size = 0;
    for (int q = 0; q < t->ranks; q++) {
        const bool same = t->host_of[q] == t->host_of[r->rank];
        *local_size += same;
        *local_rank += same && q < r->rank;
    }
}

/* The library reads the environment before it first waits, so that ranks are not in each other's way. */
void rank_set_environment(const job_rank *r)
{
    const trial *t = r->job->trial;
    int local_rank, local_size;
    count_hosts(r, &local_rank, &local_size);
    clearenv();
    setenv("RUEDA_JOB", "trial", 1);
    set_number("RUEDA_RANK", r->rank);
    set_number("RUEDA_SIZE", t->ranks);
    set_number("RUEDA_LOCAL_RANK", local_rank);
    set_number("RUEDA_LOCAL_SIZE", local_size);
    if (t->hosts > 1 || t->by_tcp)
        setenv("RUEDA_MEET", MEETING(JOB_MEETING_HOST, JOB_MEETING_PORT), 1);
    if (t->secure)
        setenv("RUEDA_KEY", "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", 1);
    else
        setenv("RUEDA_INSECURE", "1", 1);
    if (t->has_launcher)
        setenv("RUEDA_BOARD", r->job->board_paths[t->host_of[r->rank]], 1);
    if (t->elastic)
        setenv("RUEDA_ELASTIC", "1", 1);
    setenv("RUEDA_ENCRYPT", t->encrypts ? "1" : "0", 1);
    setenv("RUEDA_TRANSPORT", t->by_tcp ? "tcp" : "auto", 1);
    setenv("RUEDA_ALGORITHM", t->algorithm, 1);
    setenv("RUEDA_KERNEL", "plain", 1);
    setenv("RUEDA_CHANNELS", "2", 1);
    setenv("RUEDA_HEAP_MAX", HEAP_BYTES, 1);
    setenv("RUEDA_LOG_LEVEL", "error", 1);
    set_number("RUEDA_HEARTBEAT", t->heartbeat_s);
    set_number("RUEDA_SLOT_BYTES", t->slot_bytes);
    set_number("RUEDA_CACHE_CAPACITY", t->cache_capacity);
    set_number("RUEDA_FUSION_THRESHOLD", t->fusion_threshold);
    set_number("RUEDA_SPIN_US", t->spin_us);
    set_number("RUEDA_YIELD_US", t->yield_us);
}

static rueda_status init(job_rank *r)
{
    const trial *t = r->job->trial;
    const int32_t *ranks[TRIAL_SETS];
    int32_t sizes[TRIAL_SETS];
    for (int i = 1; i < t->set_count; i++) {
        ranks[i - 1] = t->sets[i].ranks;
        sizes[i - 1] = t->sets[i].size;
        r->sets[i] = i;
    }
    const rueda_init_options options = {.struct_size = sizeof options,
                                        .set_count = t->set_count - 1,
                                        .set_ranks = ranks,
                                        .set_sizes = sizes};
    return context_init(&r->here, t->sets_at_init ? &options : NULL);
}

bool rank_join(job_rank *r)
{
    const trial *t = r->job->trial;
    rank_set_environment(r);
    r->began_ns = sim_now(r->job->world);
    r->joined_ns = 0;
    rueda_status status = init(r);
    timeline_span(r, TIMELINE_LIFE, "rueda_init", r->began_ns);
    if (status != RUEDA_OK)
        return rank_give_up(r, status), false;
    r->joined_ns = sim_now(r->job->world);
    for (int i = 1; i < t->set_count && status == RUEDA_OK && !t->sets_at_init; i++)
        status = context_add_set(&r->here, t->sets[i].ranks, t->sets[i].size, &r->sets[i]);
    if (status != RUEDA_OK)
        rank_give_up(r, status);
    return status == RUEDA_OK;
}

/* All ranks of the job do, members or not. */
static bool remake_set(job_rank *r, int set)
{
    const trial_set *s = &r->job->trial->sets[set];
    if (set == RUEDA_GLOBAL_SET)
        return true;
    rueda_status status = context_remove_set(&r->here, r->sets[set]);
    if (status == RUEDA_OK)
        status = context_add_set(&r->here, s->ranks, s->size, &r->sets[set]);
    if (status != RUEDA_OK)
        rank_give_up(r, status);
    return status == RUEDA_OK;
}

/* False: its part in the job is over early. */
static bool do_tasks(job_rank *r)
{
    const trial *t = r->job->trial;
    for (int b = 0; b < t->batch_count; b++) {
        if (!remake_set(r, t->batches[b].remade_set) || !do_batch(r, &t->batches[b]))
            return false;
    }
    const rueda_status status =
        t->ends_together ? context_barrier(&r->here, RUEDA_GLOBAL_SET, NULL) : RUEDA_OK;
    if (status != RUEDA_OK)
        rank_give_up(r, status);
    return status == RUEDA_OK;
}

/* It leaves while a request of its own is pending, which nobody else ever submits. */
static void submit_alone(job_rank *r)
{
    const int64_t shape[] = {LONER_COUNT};
    uint8_t *bytes = take_buffer(r, LONER_COUNT, false);
    const rueda_tensor tensor = RUEDA_TENSOR("alone", bytes, RUEDA_U8, 1, shape);
    if (bytes != NULL && context_allreduce(&r->here, &tensor, &RUEDA_OPTIONS(RUEDA_SUM),
                                           &r->pending[r->pending_count]) == RUEDA_OK)
        r->pending_count++;
}

static void leave(job_rank *r)
{
    if (context_peek(&r->here) != NULL)
        context_shutdown(&r->here);
    while (r->pending_count > 0)
        rueda_request_free(r->pending[--r->pending_count]);
    return_buffers(r);
    mark_buffers(r);
    r->left_ns = sim_now(r->job->world);
}

static bool live_once(job_rank *r)
{
    const bool good = rank_join(r) && do_tasks(r);
    mark_buffers(r);
    if (good && r->job->trial->loner == r->rank)
        submit_alone(r);
    if (r->status != RUEDA_OK)
        world_rest(sim_random(r->job->world, LINGER_MOST_NS));
    check_buffers(r, "before it leaves");
    leave(r);
    check_buffers(r, "when it has left");
    return good;
}

void rank_live(void *argument)
{
    job_rank *r = argument;
    world_rest(r->job->trial->start_ns[r->rank]);
    int lives = 0;
    while (lives < r->job->trial->lives && live_once(r))
        lives++;
    if (lives == r->job->trial->lives) {
        r->finished = true;
        r->ended_ns = sim_now(r->job->world);
    }
    free_buffers(r);
    launcher_note_end(r->job, r->rank);
}
