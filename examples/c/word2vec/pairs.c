/* pairs.c: see pairs.h. */
#include "pairs.h"

#include <stdlib.h>

static size_t longest_line(const corpus *c)
{
    int64_t longest = 0;
    for (int i = 0; i < c->lines; i++) {
        const int64_t words = c->starts[i + 1] - c->starts[i];
        longest = words > longest ? words : longest;
    }
    return (size_t)longest;
}

bool pair_maker_init(pair_maker *m, const corpus *text, const sampler *negatives, const float *keep,
                     int window, int outputs)
{
    const size_t words = longest_line(text) + 1;
    *m = (pair_maker){text, negatives, keep, window, outputs, NULL, NULL};
    m->kept = malloc(sizeof *m->kept * words);
    m->pairs = malloc(sizeof *m->pairs * words * 2 * (size_t)window);
    return m->kept != NULL && m->pairs != NULL;
}

void pair_maker_free(pair_maker *m)
{
    free(m->kept);
    free(m->pairs);
}

static int keep_words(pair_maker *m, int line, random_state *random)
{
    int count = 0;
    for (int64_t i = m->text->starts[line]; i < m->text->starts[line + 1]; i++) {
        const int32_t word = m->text->tokens[i];
        if (random_unit(random) < (double)m->keep[word])
            m->kept[count++] = word;
    }
    return count;
}

/* A negative that happens to be the neighbour would be told both: another is drawn. */
static void draw_negatives(const pair_maker *m, pair *p, random_state *random)
{
    for (int i = 1; i < m->outputs; i++) {
        do
            p->outputs[i] = sampler_draw(m->negatives, random);
        while (p->outputs[i] == p->outputs[0]);
    }
}

int make_pairs(pair_maker *m, int line, random_state *random)
{
    const int words = keep_words(m, line, random);
    int count = 0;
    for (int i = 0; i < words; i++) {
        /* a reach of its own for each word: the nearest neighbours are seen most often */
        const int reach = 1 + (int)(random_next(random) % (uint64_t)m->window);
        for (int j = i - reach; j <= i + reach; j++) {
            if (j < 0 || j >= words || j == i)
                continue;
            pair *p = &m->pairs[count++];
            p->center = m->kept[i];
            p->outputs[0] = m->kept[j];
            draw_negatives(m, p, random);
        }
    }
    return count;
}
