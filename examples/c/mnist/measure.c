/* measure.c: see measure.h. */
#include "measure.h"

#include "combine.h"

/* Vectors that are all zero are as orthogonal as any. */
static double ratio(double combined, double leaves)
{
    return leaves == 0 ? 1 : combined / leaves;
}

/* ‖combined‖² / Σ‖update of a worker‖². The library tells it for what it has combined itself; where
 * a process stands in for several workers, their norms were summed beside the update. */
void measure_orthogonality(const trainer *t, step_record *r)
{
    r->orthogonality = NAN;
    for (int i = 0; i < TENSORS; i++)
        r->tensor[i] = NAN;
    if (t->o->op != RUEDA_ADASUM || t->workers == 1)
        return;
    if (t->local == 1) {
        rueda_orthogonality(NULL, &r->orthogonality);
        for (int i = 0; i < TENSORS; i++)
            rueda_orthogonality(network_tensors[i].name, &r->tensor[i]);
        return;
    }
    double combined[TENSORS] = {0}, all = 0, leaves = 0;
    add_norms(t->updates[0], combined);
    for (int i = 0; i < TENSORS; i++) {
        r->tensor[i] = ratio(combined[i], t->sums.norms[i]);
        all += combined[i];
        leaves += t->sums.norms[i];
    }
    r->orthogonality = ratio(all, leaves);
}

/* The share of test images that are read right. Every rank reads a part of them. */
rueda_status measure_accuracy(trainer *t, double *accuracy)
{
    const int count = t->test->count, size = rueda_size(), batch = (int)t->o->batch;
    const int end = (int)((int64_t)count * (t->rank + 1) / size);
    int64_t right = 0;
    for (int first = (int)((int64_t)count * t->rank / size); first < end; first += batch) {
        int correct;
        network_load(t->net, t->test, t->test_order + first,
                     end - first < batch ? end - first : batch);
        network_forward(t->net, t->parameters, &correct);
        right += correct;
    }
    const int64_t shape[] = {1};
    const rueda_tensor tensor = RUEDA_TENSOR("right", &right, RUEDA_I64, 1, shape);
    const rueda_options add = RUEDA_OPTIONS(RUEDA_SUM);
    const rueda_status status = rueda_allreduce(&tensor, &add, NULL);
    *accuracy = (double)right / count;
    return status;
}

/* Adds a step's orthogonality to the means of the first and the last tenth of the run. */
void measure_tenths(run_summary *s, const step_record *r)
{
    const int tenth = r->steps >= 10 ? r->steps / 10 : 1;
    if (r->step <= tenth) {
        s->first += r->orthogonality / tenth;
        for (int i = 0; i < TENSORS; i++)
            s->tensor_first[i] += r->tensor[i] / tenth;
    }
    if (r->step > r->steps - tenth) {
        s->last += r->orthogonality / tenth;
        for (int i = 0; i < TENSORS; i++)
            s->tensor_last[i] += r->tensor[i] / tenth;
    }
}
