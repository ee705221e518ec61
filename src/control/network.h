/* network.h: control between ranks that share no memory, by the streams of the mesh.
 *
 * Control travels on streams of its own, apart from all data. Each process set has a tree over its
 * members: a contribution is passed on to every neighbour in the tree but the one it came from, so
 * each member gets it exactly once, and nobody outside of the set is needed. An abort or a departure
 * goes to all neighbours of all sets. A member's part in a round is kept here, in the form it would
 * have in the segment.
 *
 * Contract: everything belongs to the driver. Nothing blocks but network_sleep and network_flush.
 */
#ifndef RUEDA_CONTROL_NETWORK_H
#define RUEDA_CONTROL_NETWORK_H

#include "mesh/mesh.h"

typedef struct network network;

/* What control is to know of the settings. */
typedef struct control_terms {
    uint64_t connect_ns; /* for a connection to be made */
    uint64_t silence_ns; /* after so much a rank counts as lost; 0: never */
    bool clock;          /* rank 0's time is wanted */
} control_terms;

/* The mesh and the segment must outlive the network. */
rueda_status network_open(mesh *m, const boot_identity *who, const control_terms *terms,
                          const segment *s, network **opened);
/* Whether a member has left, and no contribution of it to a round of the set can come any more. */
bool network_has_left(const network *n, uint32_t set, uint16_t index);
/* Tells everybody that we leave; after it network_flush and network_close. */
void network_leave(network *n);
/* Waits until what was sent is received, at most limit_ns; of a job that is broken (not `whole`) only
 * control counts. */
void network_flush(network *n, bool whole, uint64_t limit_ns);
void network_close(network *n); /* NULL is allowed */

/* Moves everything on that can be; true: something happened. */
bool network_pump(network *n, uint64_t now_ns);
/* Until something arrives, the bell rings, or the time is up. */
void network_sleep(network *n, uint64_t timeout_ns);

/* ---- Rounds: see control.h ---- */
rueda_status network_set_open(network *n, uint32_t set, uint64_t epoch, const uint16_t *ranks,
                              uint16_t size);
void network_set_close(network *n, uint32_t set);
segment_contribution *network_part(const network *n, uint32_t set, uint64_t round, uint16_t index);
/* Memory for the news of a part, which is taken when it has some, and kept. ERR_MEMORY. */
rueda_status network_news_room(network *n, uint32_t set, uint64_t round, uint16_t index,
                               uint64_t bytes);
uint8_t *network_news(const network *n, uint32_t set, uint64_t round, uint16_t index);
void network_contribute(network *n, uint32_t set, uint64_t round, uint16_t index);

/* ---- Questions: see control.h ---- */

/* Finds out which of the tensors that `asker` asks about this rank holds; `held` is one bit for each. */
typedef struct control_answerer {
    void (*give)(void *context, const segment_question *q, uint32_t asker, uint64_t *held);
    void *context;
} control_answerer;

void network_set_answerer(network *n, control_answerer answer);
void network_ask(network *n, const segment_question *q);
const segment_answer *network_answer_of(const network *n, uint32_t rank);

/* ---- What is known of the others ---- */

/* What added to our clock gives rank 0's, in ns; false as long as it is not known. */
bool network_clock_offset(const network *n, int64_t *offset_ns);
/* Passes an abort on to the neighbours; only the first has an effect. */
void network_tell_abort(network *n, const segment_abort *a);
/* An abort that came in, or NULL. */
const segment_abort *network_heard_abort(const network *n);

#endif
