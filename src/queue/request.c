/* request.c: life and end of a request. */
#include "queue/request.h"
#include "base/zero_alloc.h"

#include <stdlib.h>
#include <string.h>

rueda_request *request_new(uint32_t entries, int32_t set)
{
    rueda_request *r = zero_alloc(sizeof *r);
    if (r == NULL)
        return NULL;
    r->remaining = entries;
    r->set = set;
    atomic_init(&r->references, 2);
    return r;
}

bool request_end(rueda_request *r, rueda_status status, const char *text)
{
    if (status != RUEDA_OK && r->status == RUEDA_OK) {
        r->status = status;
        r->text = strdup(text);
    }
    if (--r->remaining > 0)
        return false;
    atomic_store_explicit(&r->ended, 1, memory_order_release);
    request_release(r);
    return true;
}

void request_release(rueda_request *r)
{
    if (atomic_fetch_sub(&r->references, 1) != 1)
        return;
    if (r->owns_output)
        free(r->output.data);
    free(r->output.received_splits);
    free(r->text);
    free(r);
}
