/* heard.h: which hellos a door has heard, so that one that was recorded and sent again is known by its
 * nonce. Only hellos with a right MAC come here: nobody without the key can fill it. */
#ifndef RUEDA_NET_HEARD_H
#define RUEDA_NET_HEARD_H

#include "net/proof.h"

#define HEARD_MOST (1u << 20) /* then it begins anew: the oldest could be sent again, once */

/* A table that grows; zeroed: empty. */
typedef struct heard {
    uint64_t *words; /* beginnings of nonces; 0: a free place */
    size_t places;   /* a power of two, or 0 */
    size_t count;
} heard;

/* Takes it in; false: it was heard before. */
bool heard_note(heard *h, const uint8_t nonce[PROOF_NONCE]);
void heard_clear(heard *h); /* gives the memory back; stays usable */

#endif
