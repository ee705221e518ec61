/* rueda.h: combine tensors between the processes of a job.
 *
 * A complete program. Build it with `cc sum.c $(pkg-config --cflags --libs rueda)`
 * and start it with `rueda run -np 4 ./a.out`; every rank prints 6 = 0 + 1 + 2 + 3.
 *
 *     #include <rueda.h>
 *     #include <stdio.h>
 *
 *     int main(void)
 *     {
 *         if (rueda_init(NULL) != RUEDA_OK)
 *             return fprintf(stderr, "%s\n", rueda_error()), 1;
 *         float value = (float)rueda_rank();
 *         int64_t shape[] = {1};
 *         rueda_tensor tensor = RUEDA_TENSOR("value", &value, RUEDA_F32, 1, shape);
 *         rueda_options options = RUEDA_OPTIONS(RUEDA_SUM);
 *         if (rueda_allreduce(&tensor, &options, NULL) != RUEDA_OK)
 *             return fprintf(stderr, "%s\n", rueda_error()), 1;
 *         printf("rank %d of %d: %g\n", rueda_rank(), rueda_size(), value);
 *         return rueda_shutdown() != RUEDA_OK;
 *     }
 *
 * How it works. A call hands over a tensor under a name and returns at once with a request. When
 * every rank of the process set has handed over a tensor of that name, the ranks agree on it,
 * combine the data and the request ends. Names identify tensors, so ranks may submit in any order.
 *
 * Threads. Every function may be called from any thread at any time after rueda_init has returned
 * and before rueda_shutdown is called. A background thread of the library does the work while the
 * caller computes; a caller that waits does the work itself.
 *
 * Memory. Input, output, and the arrays a tensor points to for its data must stay valid and
 * untouched until the request has ended. Names, shapes, splits and options are copied by the call. A
 * request that has ended, with whatever status, gives its memory back: nobody touches it any more, also
 * when other ranks have died, stopped or not yet heard of the end.
 *
 * Versions. Structures begin with their size, so that they can grow. A program that was built with an older
 * header gives a smaller one, and what is missing in it has its default; one that was built with a newer
 * header works as long as it leaves the fields that this library does not know at 0.
 *
 * Errors. Every function that can fail returns a rueda_status; rueda_error() then has a sentence
 * that names the rank, the tensor and what to do. Output parameters are set only on success.
 */
#ifndef RUEDA_H
#define RUEDA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define RUEDA_API __attribute__((visibility("default")))
#else
#define RUEDA_API
#endif

#define RUEDA_VERSION_MAJOR 0
#define RUEDA_VERSION_MINOR 1
#define RUEDA_VERSION_PATCH 0

/* ---- Limits ---------------------------------------------------------------------------------- */

#define RUEDA_MAX_NAME 255  /* bytes of a tensor's name, without the terminating zero */
#define RUEDA_MAX_DIMS 16   /* dimensions of a tensor */
#define RUEDA_MAX_SETS 1024 /* process sets alive at one time, the global one included */

/* ---- Status ---------------------------------------------------------------------------------- */

/* name, value, scope (see rueda_scope), sentence. Every other list of statuses comes from this one. */
#define RUEDA_STATUS_LIST(X)                                                                       \
    X(OK, 0, OPERATION, "success")                                                                 \
    X(PENDING, 1, OPERATION, "the request is still pending")                                       \
    X(ERR_ARGUMENT, 2, OPERATION, "an argument is not valid")                                      \
    X(ERR_DUPLICATE, 3, OPERATION, "a tensor of this name is already in flight")                   \
    X(ERR_MISMATCH, 4, OPERATION, "the ranks disagree about a tensor")                             \
    X(ERR_STATE, 5, PROCESS, "the library is not in the state this call needs")                    \
    X(ERR_MEMORY, 6, OPERATION, "out of memory")                                                   \
    X(ERR_SYSTEM, 7, PROCESS, "the operating system refused")                                      \
    X(ERR_CONFIG, 8, PROCESS, "a setting is not valid, or differs between ranks")                  \
    X(ERR_SHUTDOWN, 9, JOB, "the job was shut down")                                               \
    X(ERR_PEER, 10, JOB, "another rank was lost")                                                  \
    X(ERR_STALLED, 11, JOB, "some ranks did not submit in time")                                   \
    X(ERR_TIMEOUT, 12, JOB, "a time limit has passed")                                             \
    X(ERR_JOINED, 13, OPERATION, "a rank has joined; only allreduce works now")                    \
    X(ERR_INTERNAL, 14, PROCESS, "a defect in rueda")                                              \
    X(ERR_INTERRUPTED, 15, OPERATION, "the caller was interrupted while it waited")                \
    X(ERR_MEMBERS, 16, JOB, "the members of the job change: adopt the next view")

typedef enum rueda_status {
#define RUEDA_STATUS_ENUM(name, value, scope, sentence) RUEDA_##name = (value),
    RUEDA_STATUS_LIST(RUEDA_STATUS_ENUM)
} rueda_status;

/* The sentence of the last error in the calling thread; "" if there was none. Never NULL. Valid
 * until the thread's next call into the library. */
RUEDA_API const char *rueda_error(void);

/* The name of a status ("RUEDA_ERR_MISMATCH") and its general sentence. Never NULL, static. */
RUEDA_API const char *rueda_status_name(rueda_status status);
RUEDA_API const char *rueda_status_sentence(rueda_status status);

/* What an error has ended, so what a program that wants to go on must do anew. OPERATION: the operation
 * alone; all others go on. JOB: the job, on all ranks: shut down, and perhaps init again. PROCESS: this
 * process, or what it was started with, is not as the call needs it; also for a value that is no status. */
typedef enum rueda_scope {
    RUEDA_SCOPE_OPERATION = 0,
    RUEDA_SCOPE_JOB = 1,
    RUEDA_SCOPE_PROCESS = 2
} rueda_scope;
RUEDA_API rueda_scope rueda_status_scope(rueda_status status);

/* "0.1.0"; static. May be called before rueda_init. */
RUEDA_API const char *rueda_version(void);

/* ---- Types and operations -------------------------------------------------------------------- */

/* name, value, bytes of an element, text */
#define RUEDA_DTYPE_LIST(X)                                                                        \
    X(BOOL, 0, 1, "bool")                                                                          \
    X(U8, 1, 1, "uint8")                                                                           \
    X(I8, 2, 1, "int8")                                                                            \
    X(U16, 3, 2, "uint16")                                                                         \
    X(I16, 4, 2, "int16")                                                                          \
    X(I32, 5, 4, "int32")                                                                          \
    X(I64, 6, 8, "int64")                                                                          \
    X(F16, 7, 2, "float16")                                                                        \
    X(BF16, 8, 2, "bfloat16")                                                                      \
    X(F32, 9, 4, "float32")                                                                        \
    X(F64, 10, 8, "float64")

typedef enum rueda_dtype {
#define RUEDA_DTYPE_ENUM(name, value, bytes, text) RUEDA_##name = (value),
    RUEDA_DTYPE_LIST(RUEDA_DTYPE_ENUM)
} rueda_dtype;
#define RUEDA_DTYPE_COUNT 11

/* The text and the element size of a type; "?" and 0 for a value that is none. */
RUEDA_API const char *rueda_dtype_name(rueda_dtype dtype);
RUEDA_API size_t rueda_dtype_bytes(rueda_dtype dtype);

/* How allreduce, reduce and reducescatter combine. AVERAGE divides the sum by the size of the set (integers
 * are divided in double and truncated toward zero). BOOL: sum and max are "or", product and min are
 * "and"; it has no average. ADASUM is for F16, BF16, F32 and F64 in allreduce, for any number of
 * ranks: orthogonal vectors add, parallel ones average over all ranks that have something, by the
 * binary tree over the ranks of the set. Two blocks of it, a of n ranks and b of m, become
 *  a·(1 − n/(n+m) · a·b/|a|²) + b·(1 − m/(n+m) · a·b/|b|²)
 * where ranks whose tensor has the squared norm 0 are not counted; docs/concepts/adasum.md. */
#define RUEDA_OP_LIST(X)                                                                           \
    X(AVERAGE, 0, "average")                                                                       \
    X(SUM, 1, "sum")                                                                               \
    X(ADASUM, 2, "adasum")                                                                         \
    X(MIN, 3, "min")                                                                               \
    X(MAX, 4, "max")                                                                               \
    X(PRODUCT, 5, "product")

typedef enum rueda_op {
#define RUEDA_OP_ENUM(name, value, text) RUEDA_##name = (value),
    RUEDA_OP_LIST(RUEDA_OP_ENUM)
} rueda_op;
#define RUEDA_OP_COUNT 6

RUEDA_API const char *rueda_op_name(rueda_op op); /* "?" for a value that is none */

typedef enum rueda_device { RUEDA_HOST = 0, RUEDA_CUDA = 1 } rueda_device;

/* A tensor: where it lies and how it is called. Contiguous, row-major. `output` NULL means in
 * place for allreduce, reduce and broadcast, and "the library provides the memory" for operations whose
 * output has another size (see rueda_take_output). Only RUEDA_HOST is supported so far; the other
 * fields of a device are there so that the structure need not change. */
typedef struct rueda_tensor {
    size_t struct_size;   /* sizeof(rueda_tensor) of the caller */
    const char *name;     /* the same on all ranks; NULL: numbered by order of submission */
    void *input;          /* read; also written when output is NULL and the operation is in place */
    void *output;         /* written, or NULL */
    size_t output_bytes;  /* room at output; a result that needs more is an error */
    rueda_dtype dtype;    /* */
    int32_t ndim;         /* 0 is a scalar of one element */
    const int64_t *shape; /* ndim extents */
    rueda_device device;  /* where input and output lie */
    int32_t device_index; /* which device of that kind */
    void *stream;         /* device stream the result is ordered on */
    void *ready_event;    /* device event after which input may be read */
} rueda_tensor;

#ifdef __cplusplus
#define RUEDA_COMPOUND(type) type
#else
#define RUEDA_COMPOUND(type) (type)
#endif

/* A host tensor, in place. For an operation that is not, assign .output and .output_bytes afterwards. */
#define RUEDA_TENSOR(name_, data_, dtype_, ndim_, shape_)                                          \
    RUEDA_COMPOUND(rueda_tensor)                                                                   \
    {                                                                                              \
        sizeof(rueda_tensor), (name_), (data_), NULL, 0, (dtype_), (ndim_), (shape_), RUEDA_HOST,  \
            0, NULL, NULL                                                                          \
    }

/* How to combine. NULL instead of options means RUEDA_OPTIONS(RUEDA_AVERAGE). */
typedef struct rueda_options {
    size_t struct_size;    /* sizeof(rueda_options) of the caller */
    rueda_op op;           /* allreduce, reduce, reducescatter */
    double prescale;       /* each input is multiplied by it first */
    double postscale;      /* the result is multiplied by it */
    int32_t process_set;   /* RUEDA_GLOBAL_SET or what rueda_process_set_add gave */
    int32_t root;          /* broadcast, reduce, gather, scatter: a *global* rank of the set */
    int32_t priority;      /* larger goes first; front ends give the first layers the largest */
    const int64_t *splits; /* alltoall, scatter: rows for each rank of the set; NULL: even */
} rueda_options;

#define RUEDA_GLOBAL_SET 0
#define RUEDA_OPTIONS(op_)                                                                         \
    RUEDA_COMPOUND(rueda_options)                                                                  \
    {                                                                                              \
        sizeof(rueda_options), (op_), 1.0, 1.0, RUEDA_GLOBAL_SET, 0, 0, NULL                       \
    }

/* ---- Life of a job --------------------------------------------------------------------------- */

/* Settings of rueda_init. NULL means: no process sets but the global one. */
typedef struct rueda_init_options {
    size_t struct_size;
    int32_t set_count;               /* process sets to make at once, the same on all ranks */
    const int32_t *const *set_ranks; /* set_count lists of global ranks */
    const int32_t *set_sizes;        /* their lengths */
    const void *mpi_communicator; /* the address of an MPI_Comm of the application's own MPI, which
                                        must have MPI_THREAD_MULTIPLE: its ranks are the job, in its
                                        order. Read, duplicated, never freed. NULL: the environment
                                        says who we are */
    int (*interrupted)(void *);   /* asked by the waiting thread, some hundred times a second at
                                        most, while rueda_init or a function for process sets blocks;
                                        not 0: it ends with ERR_INTERRUPTED. NULL: nobody is asked */
    void *interrupted_argument;   /* for it; both must stay valid until rueda_shutdown */
    int32_t elastic; /* not 0: the job outlives its workers, see rueda_members_update; the
                                        same on all ranks. 0: RUEDA_ELASTIC says it */
} rueda_init_options;

/* Joins the job that the environment describes (`rueda run` and mpirun set it), or a communicator; a
 * process started alone is a job of one rank. Blocks until all ranks have called it, at most
 * RUEDA_START_TIMEOUT seconds, or as long as rank 0 waits once that is reached. The sets asked for get the ids 1, 2, … in their order. May be called again
 * after rueda_shutdown; all ranks then form a new generation. Not thread-safe against itself and
 * rueda_shutdown.
 * ERR_STATE: already initialised. ERR_CONFIG: a setting is wrong or differs between ranks.
 * ERR_INTERRUPTED: see the options; those who wait for this rank get ERR_PEER at once. */
RUEDA_API rueda_status rueda_init(const rueda_init_options *options);

/* Leaves the job. Operations that all ranks have agreed on are finished first; other requests, here
 * and on the other ranks, end with ERR_SHUTDOWN. Requests must not be used afterwards except by
 * rueda_request_free. ERR_STATE: not initialised. */
RUEDA_API rueda_status rueda_shutdown(void);

RUEDA_API int rueda_is_initialized(void); /* 1 or 0 */

/* Who we are; -1 before rueda_init. Local: among the ranks of this host. Cross: among the ranks
 * with the same local rank on all hosts. */
RUEDA_API int rueda_rank(void);
RUEDA_API int rueda_size(void);
RUEDA_API int rueda_local_rank(void);
RUEDA_API int rueda_local_size(void);
RUEDA_API int rueda_cross_rank(void);
RUEDA_API int rueda_cross_size(void);
RUEDA_API int rueda_is_homogeneous(void); /* 1: the same number of ranks on every host */

/* ---- Members of an elastic job ------------------------------------------------------------------ */

/* In an elastic job (rueda_init_options, or `rueda run --min-np`) the loss of a rank ends everything that is in flight
 * with ERR_MEMBERS, and all that is submitted afterwards, on all other ranks; but not the job. The others
 * agree on who is left, as the next *view* of the job, and go on in it when they call rueda_members_update. Views are
 * numbered from 1 on. In a view ranks count from 0 without holes, those of the first view before later ones; a worker
 * keeps its number, and its local rank, for its life. docs/elastic.md tells more.
 * An operation that has ended with ERR_MEMBERS on one rank may have ended well on another: compare what each has, or
 * broadcast it from rank 0, before going on. Elastic jobs are on one host so far. */

/* Who is in the job. Start from RUEDA_MEMBERS. */
typedef struct rueda_members {
    size_t struct_size; /* sizeof(rueda_members) of the caller; fields beyond it are not written */
    uint64_t
        view; /* its number; larger than that of all views before, so that it can be put on files:
                                  who has a smaller one is out of date */
    int32_t rank, size; /* as rueda_rank and rueda_size */
    int32_t worker;     /* our number, which never changes: the rank in the first view */
    int32_t lost_count; /* ranks of the view before that are not in this one */
    const int32_t
        *lost_ranks; /* which; the library's, until the next call of rueda_members_update */
} rueda_members;

#define RUEDA_MEMBERS                                                                              \
    RUEDA_COMPOUND(rueda_members)                                                                  \
    {                                                                                              \
        sizeof(rueda_members), 0, 0, 0, 0, 0, NULL                                                 \
    }

/* Adopts the next view: rank, size and all that depends on them change here and nowhere else. Blocks until all of
 * its members have called it, at most RUEDA_START_TIMEOUT seconds; a further loss meanwhile leads to a further view.
 * If no members were lost it returns at once. No other function of the library may run on another thread meanwhile, and
 * no request of the view before be used afterwards but by rueda_request_free. Process sets must be made
 * again. Memory of rueda_alloc stays what it is. `members` may be NULL.
 * ERR_STATE: not initialised, or the job is not elastic. What the job has ended with for another reason than a loss:
 * nothing has changed; shut down. ERR_PEER: the others have gone on without this rank: it was stopped, or silent, for too
 * long. ERR_TIMEOUT: too few of the last view answer, or one of the next does not call this. These, ERR_INTERRUPTED
 * and any other error: this rank is out of the job, as after rueda_shutdown, and the others go on without it. */
RUEDA_API rueda_status rueda_members_update(rueda_members *members);

/* The view that was adopted last; does not block. ERR_STATE as above. */
RUEDA_API rueda_status rueda_members_get(rueda_members *members);

/* 1: members were lost, and rueda_members_update would adopt another view; else 0. Does not block. */
RUEDA_API int rueda_members_changing(void);

/* ---- Process sets ---------------------------------------------------------------------------- */

/* Makes a set of global ranks; sorted, without repetition. Every rank of the *job* must call it
 * with the same list, in any order with other operations; blocks until all have. ERR_ARGUMENT: a
 * rank is out of range or repeated, or the set exists already. ERR_MEMORY: there are RUEDA_MAX_SETS. A set
 * that is not used costs a few KiB and no time; its id is one that no other set has now.
 * ERR_INTERRUPTED: nobody waits for it any more, but it is made all the same when all have called. */
RUEDA_API rueda_status rueda_process_set_add(const int32_t *ranks, int32_t count, int32_t *set);

/* Ends a set on every rank of the job (all must call it). Its pending requests end with
 * ERR_SHUTDOWN. ERR_ARGUMENT: the set is the global one or unknown. */
RUEDA_API rueda_status rueda_process_set_remove(int32_t set);

/* Size of a set, and the caller's index in it; -1 if the set is unknown, or (rank) if the caller
 * is not in it. */
RUEDA_API int rueda_process_set_size(int32_t set);
RUEDA_API int rueda_process_set_rank(int32_t set);

/* Copies up to `capacity` global ranks of the set into `ranks`; returns its size, or -1. */
RUEDA_API int rueda_process_set_ranks(int32_t set, int32_t *ranks, int32_t capacity);

/* ---- Operations ------------------------------------------------------------------------------ */

/* A pending operation. Owned by the caller until rueda_request_free. */
typedef struct rueda_request rueda_request;

/* Every operation returns at once and sets *request, or, if `request` is NULL, waits without a time
 * limit and returns the final status; allgather, alltoall, reducescatter, scatter and, on its root, gather
 * then need an `output`, since nobody could take another one. Status of the call itself: ERR_STATE (not
 * initialised, or the caller is not in the set), ERR_ARGUMENT, ERR_DUPLICATE, ERR_MEMORY, or what the job
 * has ended with (ERR_PEER, ERR_STALLED, ERR_SHUTDOWN); nothing was submitted then.
 * Final status: OK, ERR_MISMATCH (the ranks disagree; all ranks get the same sentence), ERR_ARGUMENT (the
 * result does not fit into output_bytes of this rank; the others have theirs), ERR_JOINED, ERR_SHUTDOWN,
 * ERR_PEER, ERR_STALLED. After an error the content of the output is undefined. */

/* Combines element by element; every rank gets the result. Shapes must agree. */
RUEDA_API rueda_status rueda_allreduce(const rueda_tensor *tensor, const rueda_options *options,
                                       rueda_request **request);

/* `count` allreduces that run together or not at all: none starts before all are there on every
 * rank, and one that fails makes all fail. One request for the whole group. */
RUEDA_API rueda_status rueda_grouped_allreduce(const rueda_tensor *tensors, int32_t count,
                                               const rueda_options *options,
                                               rueda_request **request);

/* Concatenates the ranks' tensors along the first dimension, in the order of the set. First
 * dimensions may differ, the others must agree. */
RUEDA_API rueda_status rueda_allgather(const rueda_tensor *tensor, const rueda_options *options,
                                       rueda_request **request);

/* Copies the tensor of `options->root` to all. The root's output, if given, is written too. */
RUEDA_API rueda_status rueda_broadcast(const rueda_tensor *tensor, const rueda_options *options,
                                       rueda_request **request);

/* Sends `splits[i]` rows to rank i of the set; the output holds the rows received, by rank. */
RUEDA_API rueda_status rueda_alltoall(const rueda_tensor *tensor, const rueda_options *options,
                                      rueda_request **request);

/* Combines like allreduce and gives each rank its share of the rows; the first (rows % size) ranks
 * get one row more. */
RUEDA_API rueda_status rueda_reducescatter(const rueda_tensor *tensor, const rueda_options *options,
                                           rueda_request **request);

/* The following have one root, which all ranks must name alike (else ERR_MISMATCH); one that is not in the set
 * is ERR_ARGUMENT. All ranks of the set must call them. */

/* Combines like allreduce, but only the root gets the result: in `output`, or in place if that is NULL. On the
 * other ranks the input is left as it is and `output` is not looked at. Shapes must agree. Not for ADASUM. */
RUEDA_API rueda_status rueda_reduce(const rueda_tensor *tensor, const rueda_options *options,
                                    rueda_request **request);

/* Concatenates the ranks' tensors like allgather, but only the root gets them. On the other ranks `output` is
 * not written, and rueda_take_output gives a tensor without rows. First dimensions may differ. */
RUEDA_API rueda_status rueda_gather(const rueda_tensor *tensor, const rueda_options *options,
                                    rueda_request **request);

/* Gives each rank its rows of the root's tensor: splits[i] of them to rank i of the set, in order; without
 * splits the first (rows % size) ranks get one row more, as in reducescatter. The root's tensor and splits
 * count alone. The other ranks give name, type and shape, of which the first dimension is not looked at (the
 * others must agree), nor are `input` and splits; the output tells how many rows came. The root gets its rows
 * in its output, too. A scalar is ERR_ARGUMENT. */
RUEDA_API rueda_status rueda_scatter(const rueda_tensor *tensor, const rueda_options *options,
                                     rueda_request **request);

/* ---- From one rank to another ----------------------------------------------------------------- */

/* These concern two ranks of the set, both named by their *global* number, and no other rank calls anything.
 * A send and a receive belong together that have the same name (all unnamed ones have the same), type and
 * shape. Several of one name may be pending: what a rank sends to another under one name is received in the
 * order of the calls. Different names may overtake each other. A receive never takes part of a tensor: one of
 * another type or shape ends both, on both ranks with the same ERR_MISMATCH, and all others go on.
 * A send ends when it has been received, however small it is: of two ranks that send to each other at least
 * one must not wait for its send before it receives. Splits, op and scales of the options do not count. A rank
 * may send to itself. ERR_ARGUMENT: the rank is not in the set; or data moves by MPI, which does this in the
 * global set alone. */
RUEDA_API rueda_status rueda_send(const rueda_tensor *tensor, int32_t to,
                                  const rueda_options *options, rueda_request **request);

/* Into `output`, or, if that is NULL, into `input`. From RUEDA_ANY_RANK: whoever sends, each in its turn;
 * rueda_take_output tells who it was. */
#define RUEDA_ANY_RANK (-1)
RUEDA_API rueda_status rueda_recv(const rueda_tensor *tensor, int32_t from,
                                  const rueda_options *options, rueda_request **request);

/* ---- All ranks of a set ------------------------------------------------------------------------ */

/* Ends when all ranks of the set have called it. */
RUEDA_API rueda_status rueda_barrier(int32_t process_set, rueda_request **request);

/* "I have no more data": until all ranks of the job have joined, this rank takes part in every
 * allreduce of the global set with neutral values (zeros for sum, average and adasum), while
 * AVERAGE still divides by the full size and ADASUM counts the others alone; other operations end
 * with ERR_JOINED. What this rank submits meanwhile waits until the join has ended. It ends when all
 * have joined; rueda_last_joined then tells who came last. Afterwards everything works as before the
 * join: broadcast from that rank what all need alike (it has seen the most data), and go on or shut
 * down. ERR_DUPLICATE: a join of this rank is pending. */
RUEDA_API rueda_status rueda_join(rueda_request **request);
RUEDA_API int rueda_last_joined(void); /* -1 before the first join has ended */

/* ---- Requests -------------------------------------------------------------------------------- */

/* 1 if the request has ended, else 0. Never blocks, never drives. */
RUEDA_API int rueda_poll(const rueda_request *request);

/* Waits until the request ends, at most timeout_ms (negative: no limit). PENDING means that the
 * time is up and nothing has changed: wait again. Otherwise the final status. */
RUEDA_API rueda_status rueda_wait(rueda_request *request, int64_t timeout_ms);

/* Waits for all of them; returns OK, the first final error in order, or PENDING. */
RUEDA_API rueda_status rueda_wait_all(rueda_request *const *requests, size_t count,
                                      int64_t timeout_ms);

/* Gives the request back; NULL is allowed. Freeing a pending request is allowed: the operation goes
 * on, so the tensor's memory must stay valid until rueda_shutdown. */
RUEDA_API void rueda_request_free(rueda_request *request);

/* The result of an allgather, alltoall, reducescatter, gather, scatter or recv; `output` of the tensor (recv:
 * or its input), or memory that the library has allocated. Start from RUEDA_OUTPUT. */
typedef struct rueda_output {
    size_t struct_size;            /* sizeof(rueda_output) of the caller */
    void *data;                    /* free with rueda_output_free */
    size_t bytes;                  /* */
    int32_t ndim;                  /* */
    int64_t shape[RUEDA_MAX_DIMS]; /* */
    int32_t received_count;        /* alltoall: size of the set, otherwise 0 */
    int64_t *received_splits;      /* alltoall: rows received from each rank */
    int32_t owned;                 /* 1: data is freed by rueda_output_free */
    int32_t source;                /* recv: the global rank that sent it, otherwise 0 */
} rueda_output;

#define RUEDA_OUTPUT                                                                               \
    RUEDA_COMPOUND(rueda_output)                                                                   \
    {                                                                                              \
        sizeof(rueda_output), NULL, 0, 0, {0}, 0, NULL, 0, 0                                       \
    }

/* Hands the output of an ended request over; works once. With an `output` given by the caller,
 * `data` is that pointer and is not the library's to free (rueda_output_free knows). ERR_STATE: not
 * ended, ended with an error, or taken before. ERR_ARGUMENT: no request, or an output without its size. */
RUEDA_API rueda_status rueda_take_output(rueda_request *request, rueda_output *output);
RUEDA_API void rueda_output_free(rueda_output *output);

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Memory that the other ranks of this host can reach: tensors in it are combined where they lie.
 * Aligned to 64 bytes, zeroed. NULL: not initialised, or RUEDA_HEAP_MAX is used up. Given back by
 * rueda_free, at any time. It is this process's, not the job's: what is in use at rueda_shutdown stays, counts, and is
 * within reach of the other ranks again after the next rueda_init. A forked child sees it, too. */
RUEDA_API void *rueda_alloc(size_t bytes);
RUEDA_API void rueda_free(void *memory); /* NULL is allowed */

/* ---- Insight --------------------------------------------------------------------------------- */

/* Counters since rueda_init, for this rank. */
typedef struct rueda_stats {
    size_t struct_size;        /* set by the caller; fields beyond it are not written */
    uint64_t operations;       /* tensors combined */
    uint64_t launches;         /* plans run: fewer than operations when tensors were fused */
    uint64_t bytes;            /* of those tensors on this rank */
    uint64_t rounds;           /* negotiation rounds finished */
    uint64_t control_messages; /* messages this rank sent to agree, not to move data */
    uint64_t announcements;    /* tensors that had to be described in full */
    uint64_t sleeps;           /* times this rank slept while waiting for others */
    double orthogonality;      /* of the last Adasum operations, weighted by norm; NaN: none yet */
    double workers_worth;      /* orthogonality × ranks whose tensors were not zero: about how many
                                  ranks' steps added up; likewise */
} rueda_stats;

RUEDA_API rueda_status rueda_get_stats(rueda_stats *stats);

/* How data of this job moves between hosts, or between its ranks if there is one host only: "shm", "tcp" or
 * "mpi"; "" before rueda_init. Static. */
RUEDA_API const char *rueda_transport(void);

/* A timeline: what happens to every tensor and when, as a file for Perfetto (ui.perfetto.dev) or
 * chrome://tracing, with the event names of Horovod; docs/timeline.md tells how to read it. The file is a
 * complete JSON array whenever it is looked at, also after a crash, and takes the place of one that is
 * there. Rank 0 writes it; on the other ranks both calls do nothing and return OK, unless
 * RUEDA_TIMELINE_ALL_RANKS is set: then all ranks write into it, rank 0 first. `mark_cycles` not 0:
 * negotiation rounds are shown, too. Any thread, at any time; operations go on meanwhile.
 * start: ERR_STATE: one is being written already (RUEDA_TIMELINE starts one at rueda_init).
 * ERR_ARGUMENT: no path. ERR_SYSTEM: it cannot be written. ERR_MEMORY.
 * stop: returns when all is in the file; rueda_shutdown does it, too. OK also if none is being written.
 * ERR_SYSTEM: something could not be written; the file is complete up to there. */
RUEDA_API rueda_status rueda_timeline_start(const char *path, int mark_cycles);
RUEDA_API rueda_status rueda_timeline_stop(void);

/* Orthogonality of the last Adasum of a tensor: ‖combined‖² / Σ‖gᵢ‖². 1: the gradients were
 * orthogonal, every worker added something of its own; 1/size: all were equal, one worker would
 * have done; opposed gradients give less, and ranks whose gradient is zero are not there. NULL is the
 * whole of the last operations, as in rueda_stats. ERR_ARGUMENT: no Adasum of that name has ended yet, or its name is no longer among
 * the RUEDA_CACHE_CAPACITY that are remembered. */
RUEDA_API rueda_status rueda_orthogonality(const char *name, double *value);

#ifdef __cplusplus
}
#endif
#endif
