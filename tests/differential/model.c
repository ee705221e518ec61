/* model.c: see model.h. */
#include "model.h"

#include <stdlib.h>
#include <string.h>

#define SLOT_BYTES 4096
#define SPACE (ORACLE_CHUNKS * ORACLE_PIECES)
#define SUMS_OF_PEER ((size_t)2 * SEGMENT_SUMS * SEGMENT_SUM_PARTS)
#define MOST_STEPS 6 /* that a rank runs at a time */
#define PATIENCE                                                                                   \
    100000 /* turns in a row in which nobody moves although the transport refuses now and then */
#define PRESCALE 3 /* the oracle's factors */
#define POSTSCALE 5

typedef struct model_rank {
    control job;
    control_members members;
    transport_channel *channel;
    transport_peer seen[ORACLE_RANKS]; /* what shm shows of the others */
    double *copies;                    /* of sums of other hosts */
    exec_scratch scratch;
    exec_op exec;
    unsigned operation; /* which it is in */
    bool running;
    uint64_t in[SPACE], out[SPACE];
    exec_tensor tensors[ORACLE_TENSORS];
    exec_extent extents[2 * ORACLE_CHUNKS];
    const transport_collective *collective; /* that it has started */
    transport_collective kept;
    bool collected;
} model_rank;

struct model {
    segment segment;
    uint16_t ranks[ORACLE_RANKS];
    model_rank rank[ORACLE_RANKS];
    transport_table table;
    kernel_table kernel;
    uint64_t sequence, random;
    unsigned size;
    bool in_pieces; /* the transport takes and shows little at a time */
    bool refused;   /* it has just refused */
};

static model *this_world; /* of the transport's functions, which get a channel only */

static uint64_t roll(model *w)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random;
}

static uint64_t below(model *w, uint64_t limit)
{
    return (roll(w) >> 11) % limit;
}

/* ---- The oracle's arithmetic ----------------------------------------------------------------- */

static void mix(void *dst, const void *a, const void *b, size_t count)
{
    uint64_t *to = dst;
    const uint64_t *x = a, *y = b;
    for (size_t i = 0; i < count; i++)
        to[i] = oracle_reduce((number){0, x[i]}, (number){0, y[i]}).mix;
}

static void scale(void *dst, const void *src, size_t count, double factor)
{
    uint64_t *to = dst;
    const uint64_t *from = src;
    for (size_t i = 0; i < count; i++)
        to[i] = oracle_scale((number){0, from[i]}, (uint64_t)factor).mix;
}

static void dot(const void *a, const void *b, size_t count, double sums[3])
{
    const uint64_t *x = a, *y = b;
    for (size_t i = 0; i < count; i++) {
        sums[0] += (double)oracle_product(x[i], y[i]);
        sums[1] += (double)oracle_norm(x[i]);
        sums[2] += (double)oracle_norm(y[i]);
    }
}

static void combine(void *dst, const void *a, const void *b, size_t count, double ca, double cb)
{
    uint64_t *to = dst;
    const uint64_t *x = a, *y = b;
    for (size_t i = 0; i < count; i++)
        to[i] = oracle_combined(x[i], y[i], oracle_pair(ca, cb));
}

static void copy_stream(void *dst, const void *src, size_t bytes)
{
    memcpy(dst, src, bytes);
}

static kernel_table oracles_kernel(void)
{
    kernel_table k = {.name = "oracle", .copy_stream = copy_stream};
    k.reduce[RUEDA_I64][KERNEL_SUM] = mix;
    k.scale[RUEDA_I64] = scale;
    k.dot[RUEDA_I64] = dot;
    k.combine[RUEDA_I64] = combine;
    return k;
}

/* ---- The transport --------------------------------------------------------------------------- */

/* How many of `bytes` it takes or shows now. */
static size_t some(size_t bytes)
{
    model *w = this_world;
    if (!w->in_pieces || bytes == 0)
        return bytes;
    const size_t most = below(w, 40);
    w->refused = w->refused || most < bytes;
    return most < bytes ? most : bytes;
}

static size_t send_some(transport_channel *c, uint16_t peer, const struct iovec *parts, int count)
{
    if (!this_world->in_pieces)
        return transport_shm.send(c, peer, parts, count);
    int first = 0;
    while (first < count && parts[first].iov_len == 0)
        first++;
    if (first == count)
        return 0;
    const struct iovec part = {parts[first].iov_base, some(parts[first].iov_len)};
    return part.iov_len > 0 ? transport_shm.send(c, peer, &part, 1) : 0;
}

static size_t peek_some(transport_channel *c, uint16_t peer, const void **data)
{
    return some(transport_shm.peek(c, peer, data));
}

static size_t receive_some(transport_channel *c, uint16_t peer, void *to, size_t bytes)
{
    const void *data;
    const size_t there = transport_shm.peek(c, peer, &data);
    const size_t most = some(there < bytes ? there : bytes);
    return most > 0 ? transport_shm.receive(c, peer, to, most) : 0;
}

static void collect_all(model *w)
{
    const transport_collective *first = w->rank[0].collective;
    const transport_collective *root = w->rank[first->root].collective;
    for (uint64_t i = 0; i < first->count; i++) {
        const uint64_t *given = first->in != NULL ? first->in : first->out;
        number sum = {0, first->is_broadcast ? ((const uint64_t *)root->out)[i] : given[i]};
        for (unsigned r = 1; r < w->size && !first->is_broadcast; r++) {
            const transport_collective *c = w->rank[r].collective;
            given = c->in != NULL ? c->in : c->out;
            sum = oracle_reduce(sum, (number){0, given[i]});
        }
        for (unsigned r = 0; r < w->size; r++)
            ((uint64_t *)w->rank[r].collective->out)[i] = sum.mix;
    }
    for (unsigned r = 0; r < w->size; r++) {
        w->rank[r].collected = true;
        w->rank[r].collective = NULL; /* who is quick starts the next one */
    }
}

static rueda_status collect(transport_channel *c, const transport_collective *what)
{
    model *w = this_world;
    model_rank *x = &w->rank[c->members->index];
    x->kept = *what;
    x->collective = &x->kept;
    x->collected = false;
    for (unsigned r = 0; r < w->size; r++)
        if (w->rank[r].collective == NULL)
            return RUEDA_OK;
    collect_all(w);
    return RUEDA_OK;
}

static rueda_status collected(transport_channel *c, bool *done)
{
    *done = this_world->rank[c->members->index].collected;
    return RUEDA_OK;
}

static transport_table worlds_transport(void)
{
    transport_table t = transport_shm;
    t.send = send_some;
    t.peek = peek_some;
    t.receive = receive_some;
    t.collect = collect;
    t.collected = collected;
    return t;
}

/* ---- Life ------------------------------------------------------------------------------------ */

static bool open_rank(model *w, uint16_t r)
{
    model_rank *x = &w->rank[r];
    x->job = (control){.segment = &w->segment, .rank = r};
    x->members = (control_members){&x->job, 0, ORACLE_RANKS, r, w->ranks, 0};
    x->copies = calloc(ORACLE_RANKS, SUMS_OF_PEER * sizeof *x->copies);
    if (x->copies == NULL || segment_commit_set(&w->segment, r, 0) != RUEDA_OK ||
        transport_shm.open(NULL, &x->members, 0, &x->channel) != RUEDA_OK)
        return false;
    memcpy(x->seen, x->channel->peers, sizeof x->seen);
    x->channel->table = &w->table;
    return true;
}

void model_close(model *w)
{
    for (unsigned r = 0; r < ORACLE_RANKS; r++) {
        exec_fini(&w->rank[r].exec);
        exec_scratch_free(&w->rank[r].scratch);
        free(w->rank[r].copies);
        if (w->rank[r].channel != NULL)
            transport_shm.close(w->rank[r].channel);
    }
    segment_close(&w->segment);
    free(w);
    this_world = NULL;
}

model *model_open(void)
{
    config settings;
    model *w = calloc(1, sizeof *w);
    if (w == NULL || config_load(&settings, NULL) != RUEDA_OK) {
        free(w);
        return NULL;
    }
    settings.slot_bytes = SLOT_BYTES;
    settings.channels = 1;
    w->table = worlds_transport();
    w->kernel = oracles_kernel();
    if (segment_create(&w->segment, &settings, ORACLE_RANKS, 1) != RUEDA_OK) {
        free(w);
        return NULL;
    }
    this_world = w;
    for (uint16_t r = 0; r < ORACLE_RANKS; r++)
        w->ranks[r] = r;
    for (uint16_t r = 0; r < ORACLE_RANKS; r++)
        if (!open_rank(w, r)) {
            model_close(w);
            return NULL;
        }
    return w;
}

/* Of members on other hosts, only our copies of their sums are there. */
static void see_hosts(model *w, const plan *p)
{
    for (unsigned r = 0; r < w->size; r++)
        for (unsigned q = 0; q < w->size; q++)
            w->rank[r].channel->peers[q] =
                plan_same_host(p, r, q)
                    ? w->rank[r].seen[q]
                    : (transport_peer){.sums = w->rank[r].copies + q * SUMS_OF_PEER};
}

/* ---- Operations ------------------------------------------------------------------------------ */

static void spoil(model *w, uint64_t *memory)
{
    for (unsigned i = 0; i < SPACE; i++)
        memory[i] = roll(w);
}

static uint32_t in_chunks(const plan *p)
{
    return p->collective == PLAN_ALLGATHER || p->collective == PLAN_GATHER ? 1 : p->chunks;
}

/* Chunks follow each other; fills them with what the rank contributes. */
static void lay_out(model_rank *x, const model_operation *o, unsigned r)
{
    const plan *p = o->team.plans[r];
    uint64_t *in = o->cut.in_place ? x->out : x->in;
    uint64_t offset = 0;
    for (uint32_t c = 0; c < in_chunks(p); c++) {
        x->extents[c] = (exec_extent){offset, o->cut.in[r][c]};
        for (uint32_t i = 0; i < o->cut.in[r][c]; i++)
            in[offset++] = oracle_input(r, c, i).mix;
    }
    offset = 0;
    for (uint32_t c = 0; c < oracle_out_chunks(p); c++) {
        x->extents[ORACLE_CHUNKS + c] = (exec_extent){offset, o->cut.out[r][c]};
        offset += o->cut.out[r][c];
    }
    offset = 0;
    for (uint32_t t = 0; t < o->cut.tensors; t++) {
        x->tensors[t] = (exec_tensor){offset, o->cut.tensor_counts[t], (uint8_t *)(in + offset),
                                      (uint8_t *)(x->out + offset)};
        offset += o->cut.tensor_counts[t];
    }
}

static rueda_status begin(model *w, const model_operation *o, unsigned r)
{
    model_rank *x = &w->rank[r];
    const plan *p = o->team.plans[r];
    spoil(w, x->out);
    lay_out(x, o, r);
    x->running = true;
    const exec_launch launch = {.plan = p,
                                .channel = x->channel,
                                .scratch = &x->scratch,
                                .sequence = w->sequence + x->operation,
                                .number = w->sequence + x->operation,
                                .dtype = RUEDA_I64,
                                .op = KERNEL_SUM,
                                .prescale = p->layout.prescaled ? PRESCALE : 1,
                                .postscale = POSTSCALE,
                                .tensors = x->tensors,
                                .tensor_count = o->cut.tensors,
                                .in = x->extents,
                                .out = x->extents + ORACLE_CHUNKS,
                                .largest = o->cut.largest,
                                .pieces = 1,
                                .piece_limit = o->cut.piece * sizeof(uint64_t),
                                .stream = o->cut.stream};
    return exec_start(&x->exec, &launch, &w->kernel);
}

/* The caller gets its memory back, takes the result and uses it for something else. */
static void finish(model *w, model_operation *o, unsigned r)
{
    model_rank *x = &w->rank[r];
    uint64_t offset = 0;
    for (uint32_t c = 0; c < oracle_out_chunks(o->team.plans[r]); c++)
        for (uint32_t i = 0; i < o->cut.out[r][c]; i++)
            o->results[r][c][i] = x->out[offset++];
    exec_fini(&x->exec);
    spoil(w, x->in);
    spoil(w, x->out);
    x->running = false;
    x->operation++;
}

/* Moves a rank by some steps. */
static rueda_status move(model *w, model_operation *operations, unsigned r, bool *moved)
{
    model_rank *x = &w->rank[r];
    exec_result result;
    rueda_status status = RUEDA_OK;
    if (!x->running) {
        *moved = true;
        status = begin(w, &operations[x->operation], r);
    }
    if (status == RUEDA_OK)
        status = exec_run(&x->exec, 1 + (uint32_t)below(w, MOST_STEPS), &result, moved);
    if (status == RUEDA_OK && result == EXEC_DONE) {
        *moved = true;
        finish(w, &operations[x->operation], r);
    }
    return status;
}

static unsigned count_ended(const model *w, unsigned count)
{
    unsigned ended = 0;
    for (unsigned r = 0; r < w->size; r++)
        ended += w->rank[r].operation == count;
    return ended;
}

/* Each of the others by itself, beginning with any; *alone: they could. */
static rueda_status end_alone(model *w, model_operation *operation, bool *alone)
{
    const unsigned first = (unsigned)below(w, w->size);
    for (unsigned n = 0; n < w->size; n++) {
        const unsigned r = (first + n) % w->size;
        while (w->rank[r].operation == 0) {
            bool moved = false;
            w->refused = false;
            const rueda_status status = move(w, operation, r, &moved);
            *alone = moved || w->refused;
            if (status != RUEDA_OK || !*alone)
                return status;
        }
    }
    return RUEDA_OK;
}

/* One rank is preferred for a while, and then another. */
static model_end run_all(model *w, model_operation *operations, unsigned count, bool *alone)
{
    unsigned idle = 0, favourite = 0;
    while (count_ended(w, count) < w->size) {
        if (alone != NULL && *alone && count_ended(w, count) > 0) {
            if (end_alone(w, operations, alone) != RUEDA_OK)
                return MODEL_FAILED;
            continue;
        }
        if (below(w, 12) == 0)
            favourite = (unsigned)below(w, w->size);
        bool moved = false;
        w->refused = false;
        for (unsigned n = 0; n < w->size && !moved; n++) {
            const unsigned r = (favourite + n) % w->size;
            if (w->rank[r].operation < count && move(w, operations, r, &moved) != RUEDA_OK)
                return MODEL_FAILED;
        }
        idle = moved ? 0 : idle + 1;
        if (idle > (w->refused ? PATIENCE : 0))
            return MODEL_DEADLOCK;
    }
    return MODEL_DONE;
}

model_end model_run(model *w, model_operation *operations, unsigned count, bool *alone,
                    uint64_t seed)
{
    w->random = oracle_hash(seed) | 1;
    w->in_pieces = below(w, 2) == 0;
    w->size = operations[0].team.ranks;
    for (unsigned r = 0; r < w->size; r++) {
        model_rank *x = &w->rank[r];
        x->members.size = (uint16_t)w->size;
        x->operation = 0;
        x->running = false;
        x->collective = NULL;
        atomic_store(&x->seen[r].flag->value, w->sequence << EXEC_TICK_BITS);
        spoil(w, x->in);
        spoil(w, x->out);
    }
    see_hosts(w, operations[0].team.plans[0]);
    const model_end end = run_all(w, operations, count, alone);
    w->sequence += count;
    return end;
}
