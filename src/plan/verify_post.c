/* verify_post.c: what each collective promises, over what the run has left in memory. */
#include "plan/verify.h"

static void broken_promise(verifier *v, unsigned rank, uint32_t chunk, const char *text)
{
    const plan *p = v->plans[rank];
    verify_fail(v, PLAN_CHECK_DATA, rank, p->step_count, "out[%u] of rank %u %s", chunk, rank,
                text);
}

/* The value that rank r must have in OUT chunk c, for collectives that move data. */
static value moved(verifier *v, unsigned r, uint32_t c)
{
    switch (v->first->collective) {
    case PLAN_ALLGATHER:
    case PLAN_GATHER:
        return (value){.shape = shape_leaf(&v->shapes, c)};
    case PLAN_SCATTER:
        return (value){.shape = shape_leaf(&v->shapes, v->first->layout.root), .chunk = r};
    case PLAN_ALLTOALL:
        return (value){.shape = shape_leaf(&v->shapes, c), .chunk = r};
    default:
        return (value){.shape = shape_leaf(&v->shapes, v->first->layout.root), .chunk = c};
    }
}

static void check_moved(verifier *v, unsigned r, uint32_t c, uint32_t piece)
{
    value wanted = moved(v, r, c), *found = &v->actors[r].out[c * (size_t)v->pieces + piece].value;
    if (found->shape != wanted.shape || found->chunk != wanted.chunk || found->piece != piece)
        broken_promise(v, r, c, "is not what was to be moved there");
}

/* A rank that has an output: with one root, that. */
static unsigned first_with_output(const verifier *v)
{
    return plan_has(v->first, PLAN_OUT, 0) ? 0 : v->first->layout.root;
}

/* Every contribution once, scaled before and after once, and the same expression everywhere. `tree`
 * is Adasum's result; 0 for other reductions. */
static void check_reduced(verifier *v, unsigned r, uint32_t c, uint32_t piece, uint32_t tree)
{
    const plan_layout *layout = &v->first->layout;
    size_t i = c * (size_t)v->pieces + piece;
    const value *found = &v->actors[r].out[i].value;
    bool scatters = v->first->collective == PLAN_REDUCESCATTER;
    if (found->chunk != (scatters ? r : c) || found->piece != piece)
        broken_promise(v, r, c, "holds another chunk");
    else if (tree && found->shape != tree)
        broken_promise(v, r, c, "is not the tree of joined blocks, scaled once");
    else if (!tree && !shape_is_whole(&v->shapes, layout, found->shape, v->seen))
        broken_promise(v, r, c,
                       "does not hold every rank's contribution exactly once, scaled once");
    else if (!scatters && found->shape != v->actors[first_with_output(v)].out[i].value.shape)
        broken_promise(v, r, c, "was combined in another order than on rank 0");
}

/* Nobody leaves before everybody has come. */
static void check_barrier(verifier *v, unsigned r)
{
    for (unsigned q = 0; q < v->ranks; q++)
        if (v->actors[r].clock[q] < EPOCH_CAME)
            verify_fail(v, PLAN_CHECK_DATA, r, v->plans[r]->step_count,
                        "leaves the barrier although rank %u may not have come", q);
}

void verify_post(verifier *v)
{
    plan_collective collective = v->first->collective;
    bool reduces = collective == PLAN_ALLREDUCE || collective == PLAN_REDUCESCATTER ||
                   collective == PLAN_REDUCE_TO_ROOT;
    const plan_layout *layout = &v->first->layout;
    uint32_t tree = layout->adasum ? shape_tree(&v->shapes, layout, 0, v->ranks) : 0;
    tree = shape_of(&v->shapes, SHAPE_POST, tree, 0);
    for (unsigned r = 0; r < v->ranks; r++) {
        if (collective == PLAN_BARRIER)
            check_barrier(v, r);
        for (uint32_t c = 0; c < v->out_chunks && plan_has(v->first, PLAN_OUT, r); c++)
            for (uint32_t piece = 0; piece < v->pieces; piece++)
                if (reduces)
                    check_reduced(v, r, c, piece, tree);
                else
                    check_moved(v, r, c, piece);
    }
}

/* What a rank waits for has happened when another ends only if the other's end comes after it. */
bool verify_self_finishing(const verifier *v)
{
    for (unsigned ended = 0; ended < v->ranks; ended++)
        for (unsigned q = 0; q < v->ranks; q++)
            for (unsigned p = 0; p < v->ranks && q != ended; p++)
                if (v->actors[q].needs[p] > v->actors[ended].clock[p])
                    return false;
    return true;
}

bool verify_same_order(const verifier *v)
{
    const cell *out = v->actors[first_with_output(v)].out;
    for (uint32_t i = 1; i < v->out_chunks * v->pieces; i++)
        if (out[i].value.shape != out[0].value.shape)
            return false;
    return true;
}
