/* heard.c: see heard.h. Nonces are random, so their first bytes are where to look for them. */
#include "net/heard.h"

#include "net/bytes.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_PLACES 256u

/* Where the word is, or would be. */
static uint64_t *find(const heard *h, uint64_t word)
{
    size_t at = (word >> 1) & (h->places - 1); /* the lowest bit is always set */
    while (h->words[at] != 0 && h->words[at] != word)
        at = (at + 1) & (h->places - 1);
    return &h->words[at];
}

/* Without memory, or at the limit, it forgets instead: that a caller gets in matters more. */
static bool make_room(heard *h)
{
    const size_t places = h->places == 0 ? FIRST_PLACES : 2 * h->places;
    uint64_t *words = places / 2 <= HEARD_MOST ? calloc(places, sizeof *words) : NULL;
    if (words == NULL) {
        if (h->words == NULL)
            return false;
        memset(h->words, 0, h->places * sizeof *h->words);
        h->count = 0;
        return true;
    }
    heard grown = {words, places, h->count};
    for (size_t i = 0; i < h->places; i++) {
        if (h->words[i] != 0)
            *find(&grown, h->words[i]) = h->words[i];
    }
    free(h->words);
    *h = grown;
    return true;
}

bool heard_note(heard *h, const uint8_t nonce[PROOF_NONCE])
{
    const uint64_t word = bytes_get64(nonce) | 1; /* never that of a free place */
    if (2 * (h->count + 1) > h->places && !make_room(h))
        return true;
    uint64_t *place = find(h, word);
    if (*place == word)
        return false;
    *place = word;
    h->count++;
    return true;
}

void heard_clear(heard *h)
{
    free(h->words);
    *h = (heard){0};
}
