/* fuse.c: which decided tensors travel as one operation.
 *
 * Invariant: it follows from agreed numbers only, so all members fuse the same tensors.
 */
#include "engine/engine.h"

/* Whether both can be one space for one plan. */
static bool can_fuse(const engine *e, const record *a, const record *b)
{
    const signature *x = &a->agreed, *y = &b->agreed;
    const bool alone = e->settings.deterministic && x->op == RUEDA_ADASUM;
    return !alone && y->kind == SIGNATURE_ALLREDUCE && x->dtype == y->dtype && x->op == y->op &&
           x->prescale == y->prescale && x->postscale == y->postscale &&
           a->all_mapped == b->all_mapped && a->whole == b->whole && !b->conflicting;
}

/* Tensors that one operation can have. */
static uint32_t fuse_limit(const record *r)
{
    if (r->all_mapped)
        return SEGMENT_ADDRESSES;
    return r->agreed.op == RUEDA_ADASUM ? SEGMENT_SUMS : UINT32_MAX;
}

/* Groups stay whole, however large. */
uint32_t fuse_take(const engine *e, record **list, uint32_t count, record **fused)
{
    record *first = list[0];
    const uint32_t limit = fuse_limit(first);
    uint64_t bytes = 0;
    uint32_t taken = 0;
    for (uint32_t i = 0; i < count && taken < limit; i++) {
        record *r = list[i];
        if (r == NULL || (i > 0 && !can_fuse(e, first, r)))
            continue;
        const bool same_group = r->agreed.group_size > 0 && r->agreed.group == first->agreed.group;
        if (i > 0 && !same_group &&
            bytes + signature_bytes(&r->agreed) > (uint64_t)e->settings.fusion_threshold)
            continue;
        bytes += signature_bytes(&r->agreed);
        fused[taken++] = r;
        list[i] = NULL;
    }
    return taken;
}
