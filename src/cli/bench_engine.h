/* bench_engine.h: the collectives through the public calls, exactly as a user makes them. */
#ifndef RUEDA_CLI_BENCH_ENGINE_H
#define RUEDA_CLI_BENCH_ENGINE_H

#include "cli/bench_slice.h"

/* An engine for this rank, after rueda_init. `shared`: tensors lie in rueda_alloc's memory. */
slice_engine bench_engine(board *b, bool shared);

#endif
