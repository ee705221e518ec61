/* context.h: the one piece of global state: the engine of this process, if it is initialised.
 *
 * Written only by rueda_init and rueda_shutdown. In a forked child it is marked as foreign: the
 * child has no background thread and no part in the job.
 */
#ifndef RUEDA_API_CONTEXT_H
#define RUEDA_API_CONTEXT_H

#include "engine/engine.h"

/* The running engine, or NULL with ERR_STATE's sentence set, naming the call. */
engine *context_engine(const char *call);
/* Without a sentence. */
engine *context_peek(void);
/* Waits for a request of the library's own; ERR_INTERRUPTED, which names the call, if rueda_init was told
 * how to ask for that and the caller gives up. */
rueda_status context_wait(rueda_request *request, const char *call);
/* The memory of rueda_alloc, which outlives engines. */
heap *context_heap(void);

#endif
