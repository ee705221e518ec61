/* call.h: what all collectives do with what they are given: read it, check it, make an entry of it, submit.
 *
 * A call goes: call_read, checks, an entry, call_finish; after an error call_abandon. Every function that fails
 * says why, naming the function that was called and the tensor.
 */
#ifndef RUEDA_API_CALL_H
#define RUEDA_API_CALL_H

#include "api/context.h"
#include "api/structs.h"

extern const struct_kind call_tensor_kind;

/* The collective of rueda.h of that name: the one of a context, for the process's. */
#define CALL_PUBLIC(name)                                                                          \
    rueda_status rueda_##name(const rueda_tensor *tensor, const rueda_options *options,            \
                              rueda_request **request)                                             \
    {                                                                                              \
        return context_##name(context_of_process(), tensor, options, request);                     \
    }

/* A call of a collective: what it was given, as this library understands it. */
typedef struct collective_call {
    const char *function;
    rueda_tensor tensor;
    rueda_options options;
    uint64_t bytes; /* of the input */
    const context *here;
    engine *engine;   /* its */
    process_set *set; /* held, once it is not NULL */
} collective_call;

/* A tensor's name in a sentence. */
const char *call_shown(const char *name);

/* Reads what the caller gave, and holds the set. */
rueda_status call_read(collective_call *c, const context *here, const char *function,
                       const rueda_tensor *tensor, const rueda_options *options);
/* Its parts: the engine and the options; the tensor; the bytes of its input, which must be there if the call
 * reads it; the set. */
rueda_status call_begin(collective_call *c, const context *here, const char *function,
                        const rueda_options *options);
rueda_status call_read_tensor(collective_call *c, const rueda_tensor *tensor);
rueda_status call_measure(collective_call *c, bool reads_input);
rueda_status call_hold_set(collective_call *c);

/* A reduction that exists for the type. */
rueda_status call_check_reduction(const collective_call *c, bool adasum_allowed);
/* The output of an operation in which it is as large as the input. */
rueda_status call_check_output(const collective_call *c);
/* An output of another size: the library may provide it, but then somebody must be able to take it. */
rueda_status call_check_taker(const collective_call *c, rueda_request *const *request);
rueda_status call_check_rows(const collective_call *c);

/* What every collective says about its tensor; the kind's own fields follow. NULL: out of memory. */
entry *call_entry(const collective_call *c, signature_kind kind);
/* The entry of an operation that can be in place. */
entry *call_entry_in_place(const collective_call *c, signature_kind kind);
/* The rows for each member: the options' splits, which must add up to the rows, or as even as can be. */
rueda_status call_set_splits(const collective_call *c, entry *own);

/* Of what was submitted: gives the request to the caller, or waits if the caller gave nowhere to put it. */
rueda_status call_give(const collective_call *c, rueda_request *r, rueda_request **request);
/* Submits, and gives the request. Takes the entries over, and lets
 * go of the set. */
rueda_status call_submit(const collective_call *c, entry **entries, const char *const *names,
                         uint32_t count, rueda_request **request);
/* Submits the entry, which it takes over; or, after an error, gives it back. */
rueda_status call_finish(const collective_call *c, rueda_status status, entry *own,
                         rueda_request **request);
/* After a call has failed. */
rueda_status call_abandon(const collective_call *c, rueda_status status);

#endif
