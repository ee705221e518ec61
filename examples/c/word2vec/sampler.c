/* sampler.c: see sampler.h. */
#include "sampler.h"

#include <math.h>
#include <stdlib.h>

/* Cells hold count times each word's chance at first: those with less than 1 are filled up from those
 * with more. `small` and `large` are the lists of both. */
static void fill_up(sampler *s, int32_t *small, int32_t *large)
{
    int smalls = 0, larges = 0;
    for (int32_t i = 0; i < s->count; i++) {
        s->other[i] = i;
        if (s->keep[i] < 1)
            small[smalls++] = i;
        else
            large[larges++] = i;
    }
    while (smalls > 0 && larges > 0) {
        const int32_t poor = small[--smalls], rich = large[larges - 1];
        s->other[poor] = rich;
        s->keep[rich] -= 1 - s->keep[poor];
        if (s->keep[rich] < 1) {
            larges--;
            small[smalls++] = rich;
        }
    }
}

bool sampler_init(sampler *s, const vocabulary *v)
{
    const size_t count = (size_t)v->count;
    int32_t *lists = malloc(sizeof *lists * 2 * count);
    *s = (sampler){v->count, malloc(sizeof *s->keep * count), malloc(sizeof *s->other * count)};
    if (lists == NULL || s->keep == NULL || s->other == NULL) {
        free(lists);
        sampler_free(s);
        return false;
    }
    double total = 0;
    for (size_t i = 0; i < count; i++)
        total += s->keep[i] = pow((double)v->counts[i], SAMPLER_POWER);
    for (size_t i = 0; i < count; i++)
        s->keep[i] *= (double)count / total;
    fill_up(s, lists, lists + count);
    free(lists);
    return true;
}

void sampler_free(sampler *s)
{
    free(s->keep);
    free(s->other);
    *s = (sampler){0};
}

int32_t sampler_draw(const sampler *s, random_state *random)
{
    const double place = random_unit(random) * s->count;
    const int32_t cell = (int32_t)place;
    return place - cell < s->keep[cell] ? cell : s->other[cell];
}

void keeping_chances(const vocabulary *v, double threshold, float *chances)
{
    double total = 0;
    for (int i = 0; i < v->count; i++)
        total += (double)v->counts[i];
    for (int i = 0; i < v->count; i++) {
        const double excess = (double)v->counts[i] / (threshold * total);
        chances[i] = excess > 1 ? (float)((sqrt(excess) + 1) / excess) : 1;
        if (chances[i] > 1)
            chances[i] = 1;
    }
}
