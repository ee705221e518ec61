/* request.c: life and end of a request. */
#include "queue/request.h"

#include <stdlib.h>
#include <string.h>

rueda_request *request_new(uint32_t entries, int32_t set)
{
    rueda_request *r = malloc(sizeof *r);
    if (r == NULL)
        return NULL;
    /* not the output: most requests have none, and untouched memory costs no cache misses */
    r->remaining = entries;
    r->set = set;
    r->status = RUEDA_OK;
    r->text = NULL;
    r->has_output = r->owns_output = false;
    r->output.received_splits = NULL;
    atomic_init(&r->ended, 0);
    atomic_init(&r->references, 2);
    return r;
}

bool request_end(rueda_request *r, rueda_status status, const char *text)
{
    RUEDA_ASSERT(r->remaining > 0 && !request_ended(r)); /* it ends once */
    if (status != RUEDA_OK && r->status == RUEDA_OK) {
        r->status = status;
        r->text = strdup(text);
    }
    if (--r->remaining > 0)
        return false;
    /* in one order with the look at who sleeps: see tests/litmus/driver.c */
    atomic_store(&r->ended, 1);
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
