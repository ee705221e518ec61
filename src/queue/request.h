/* request.h: what a caller holds of a pending operation.
 *
 * Two references: the caller's and the library's. The library writes status, text and output, then
 * `ended` with release order; nobody else writes them. */
#ifndef RUEDA_QUEUE_REQUEST_H
#define RUEDA_QUEUE_REQUEST_H

#include "base/status.h"

#include <stdatomic.h>
#include <stdbool.h>

struct rueda_request {
    _Atomic uint32_t ended; /* 0 or 1 */
    _Atomic uint32_t references;
    uint32_t remaining; /* entries of it that have not ended; the library's */
    rueda_status status;
    char *text; /* of an error, or NULL */
    rueda_output output;
    bool has_output;  /* there is one to take */
    bool owns_output; /* its data is ours until taken */
    int32_t set;      /* of the operation */
};

/* With both references. NULL: out of memory. */
rueda_request *request_new(uint32_t entries, int32_t set);

/* One entry has ended; the last one ends the request and drops the library's reference. Returns
 * whether it was the last. `text` is copied; the first error of a group is kept. */
bool request_end(rueda_request *r, rueda_status status, const char *text);

void request_release(rueda_request *r);

static inline bool request_ended(const rueda_request *r)
{
    return atomic_load_explicit(&r->ended, memory_order_acquire) != 0;
}

#endif
