/* transport.h: how bytes get from one rank to another.
 *
 * A transport serves channels: one for each operation of a process set that may be in flight, and one that
 * carries messages between any two members at any time (segment_message_channel; opened when first used). It
 * has two faces. Messages are a stream of bytes from each member to each other member on each channel,
 * in order, without loss. Peer memory, which only some transports have, is the flag, slots, sums and
 * heap of another member as plain pointers; what may be read when is the plan's business.
 *
 * Contract of every function of the table, proved by tests/multiprocess/transport_test.c for each
 * transport: calls come from one thread at a time; none blocks but `join`; a channel's memory belongs to the
 * transport from open to close. Functions that return a status leave their outputs alone when they fail. Those
 * that move bytes return no status: what goes wrong there ends the job (control_fail, or a peer that
 * counts as lost), and the call returns 0.
 */
#ifndef RUEDA_TRANSPORT_H
#define RUEDA_TRANSPORT_H

#include "control/control.h"
#include "kernel/kernel.h"

#include <sys/uio.h>

typedef struct transport_channel transport_channel;
typedef struct transport_job transport_job; /* what a transport keeps for a job; its own */

/* What a transport is told before the ranks meet. */
typedef struct transport_terms {
    config *settings; /* `join` may fill in rank, size, job, key and meeting place */
    const rueda_init_options *options;
    const kernel_table *kernel;
    const logger *log;
} transport_terms;

/* A member's memory as this rank sees it. `flag` is NULL if it cannot be reached (another host). */
typedef struct transport_peer {
    segment_flag *flag;         /* how far the member has come; written by it alone */
    uint8_t *slots;             /* PLAN_SLOTS × slot_bytes */
    double *sums;               /* 2 × SEGMENT_SUMS × SEGMENT_SUM_PARTS */
    segment_address *addresses; /* SEGMENT_ADDRESSES tensors of the current operation */
    uint8_t *heap;              /* what these addresses count from */
} transport_peer;

/* A whole collective. `in` NULL: `out` holds the input, too. */
typedef struct transport_collective {
    bool is_broadcast; /* a broadcast of `root`'s `out`; else an allreduce */
    const void *in;
    void *out;
    uint64_t count; /* elements */
    rueda_dtype dtype;
    kernel_op op;
    uint16_t root;
} transport_collective;

typedef struct transport_table {
    const char *name; /* as in RUEDA_TRANSPORT */

    /* It reaches members that share no memory with us. Where the user asks for it by name, ranks of one
     * host do not share memory either. */
    bool between_hosts;
    /* Whatever it lets out of the host can be encrypted; RUEDA_ENCRYPT=1 is refused otherwise. */
    bool encrypts;
    /* It needs ranks that mpirun has started. */
    bool by_mpirun;

    /* Makes a channel between the members when its first operation is launched here; others may be earlier or later,
     * and may send before we have opened it. Flags of peers may be read at once, other memory of theirs when
     * their flag says so. The members and the job (NULL: there is none) must outlive the channel. ERR_MEMORY,
     * ERR_SYSTEM. */
    rueda_status (*open)(transport_job *job, const control_members *members, uint32_t number,
                         transport_channel **channel);

    /* Frees it. Bytes not yet received are lost. NULL is allowed. */
    void (*close)(transport_channel *channel);

    /* Takes as much as there is room for of the parts, in order, for `peer`, and returns how many bytes
     * (0: no room now). They are copied: the caller's memory is free on return. */
    size_t (*send)(transport_channel *channel, uint16_t peer, const struct iovec *parts, int count);

    /* Bytes that have arrived from `peer`, contiguous, at *data; 0: none now. They stay there until
     * the next `peek`, `receive` or `consume` of this stream, so that they can be reduced where they
     * lie; what is not consumed is shown again, and with it what has come since, at the latest when
     * fewer than 8 bytes are left. *data is aligned to 8 bytes where the number of bytes received before
     * is divisible by 8. */
    size_t (*peek)(transport_channel *channel, uint16_t peer, const void **data);

    /* Gives `bytes` of what peek showed last back to the sender. */
    void (*consume)(transport_channel *channel, uint16_t peer, size_t bytes);

    /* Like peek, copy and consume in one, with one copy less where that is possible. Returns how many
     * of at most `bytes` bytes have come. */
    size_t (*receive)(transport_channel *channel, uint16_t peer, void *to, size_t bytes);

    /* Asked of a peer that has left the job: whether all it ever sent has arrived here. It is asked again,
     * with looks at the stream in between, until it says so. */
    bool (*ended)(transport_channel *channel, uint16_t peer);

    /* ---- What only some transports have; NULL otherwise ---- */

    /* Whether all that was sent leaves this process without further calls. An operation ends then. */
    bool (*flushed)(transport_channel *channel);

    /* Before the ranks meet: joins the job, if the settings want this transport, and may say who we are.
     * Blocks at most settings->start_timeout seconds. *job stays NULL: it takes no part in this job. leave
     * comes after all channels; `whole`: the job is not broken. */
    rueda_status (*join)(const transport_terms *terms, transport_job **job);
    void (*leave)(transport_job *job, bool whole);

    /* What nobody has read of a channel when it is closed would be read by the next one with its numbers: sends
     * and receives, which may leave something, are for the global set alone, which stays. */
    bool keeps_unread;

    /* Where nobody rings when bytes come: who waits asks again soon, and calls this now and then also
     * when nothing is in flight, as what others need may still be on its way. */
    void (*attend)(transport_job *job);

    /* Collectives of its own over all ranks of the job, none of which shares memory with another;
     * one at a time on a channel. collect starts one; the memory is the transport's until collected says
     * that it is done. ERR_PEER: it failed. */
    rueda_status (*collect)(transport_channel *channel, const transport_collective *what);
    rueda_status (*collected)(transport_channel *channel, bool *done);
} transport_table;

/* Every transport embeds this first: what exec may read without a call. */
struct transport_channel {
    const transport_table *table;
    const control_members *members;
    uint64_t slot_bytes;
    transport_peer *peers; /* one for each member, ours included */
};

#endif
