/* wire.h: what the launcher and its agents say to each other.
 *
 *     agent                          launcher
 *     WIRE_HELLO, as a line  ──────>
 *                            <────── INPUT …, JOB
 *     READY or REFUSED       ──────>            on every host, then
 *                            <────── START      a step: all ranks
 *     STARTED … or UNSTARTED ──────>
 *     OUTPUT …, ENDED …      ──────>
 *     IDLE                   ──────>            all ranks have ended, all output was sent
 *                            <────── START the next step, or BYE
 * At any time: GONE, LOST, SIGNAL, CREDIT, PING (answered by PONG), HOLD; NOTE.
 *
 * A frame is a header of 12 bytes and a body. Numbers are little-endian. An agent sends at most
 * WIRE_WINDOW bytes of OUTPUT frames of each kind before CREDIT gives them back, so output that
 * nobody reads never stands before a message.
 */
#ifndef RUEDA_CLI_LAUNCH_WIRE_H
#define RUEDA_CLI_LAUNCH_WIRE_H

#include "cli/launch/bytes.h"

#include <stdint.h>

/* An agent's first line is WIRE_HELLO, WIRE_PROTOCOL and its version: so it is told from what a login
 * shell may print before it. The protocol changes with everything below. */
#define WIRE_HELLO "rueda-agent"
#define WIRE_PROTOCOL 4
#define WIRE_HEADER 12
#define WIRE_BODY_MAX (64u << 20) /* a longer frame is no frame */
#define WIRE_WINDOW 65536
#define WIRE_INPUT_MAX (1u << 20) /* bytes of one INPUT frame */

typedef enum wire_type {
    WIRE_JOB = 1,   /* to the agent: a host_job */
    WIRE_INPUT,     /* body: a part of what every rank reads from its stdin */
    WIRE_START,     /* number: step; body: where rank 0 is met, "" if on one host */
    WIRE_SIGNAL,    /* number: the signal for all ranks */
    WIRE_LOST,      /* number: a rank that the job goes on without: what it has left is killed */
    WIRE_CREDIT,    /* number: bytes; kind: of which output */
    WIRE_UNREAD,    /* kind: nobody reads this output any more */
    WIRE_GONE,      /* number: a rank of another host, which has ended; body: the
                       generation it joined, the rank it names or −1 */
    WIRE_PING,      /* the launcher lives */
    WIRE_HOLD,      /* it will be silent until the next frame (it is being stopped) */
    WIRE_BYE,       /* */
    WIRE_READY,     /* to the launcher: a host_answer */
    WIRE_REFUSED,   /* body: why the job cannot run here */
    WIRE_STARTED,   /* number: rank; body: pid */
    WIRE_UNSTARTED, /* number: rank; body: errno */
    WIRE_OUTPUT,    /* number: rank; kind: 0 stdout, 1 stderr, 2 its results; body: a line
                       or a part of one, of results any bytes; empty: the end */
    WIRE_ENDED,     /* number: rank; body: exit code, signal, core dumped, and from its board
                       (boot/board.h): the generation it joined, the rank it names or −1,
                       whether its timeline is incomplete */
    WIRE_IDLE,      /* */
    WIRE_PONG,      /* */
    WIRE_NOTE       /* body: a sentence for the user */
} wire_type;

/* What a rank puts out. The first WIRE_TEXTS are for people. */
enum { WIRE_STDOUT, WIRE_STDERR, WIRE_RESULTS, WIRE_KINDS, WIRE_TEXTS = WIRE_RESULTS };

typedef struct wire_frame {
    wire_type type;
    int kind;
    uint32_t number;
    uint32_t length;
    const char *body; /* inside the queue; no zero at its end */
} wire_frame;

void wire_put(bytes *to, wire_type type, int kind, uint32_t number, const void *body,
              size_t length);
/* The first frame of the queue: 1, 0 if it is not complete, -1 if it is none. Take it off with
 * wire_drop. */
int wire_peek(const bytes *from, wire_frame *frame);
void wire_drop(bytes *from, const wire_frame *frame);

/* ---- Bodies ---------------------------------------------------------------------------------- */

void wire_add_number(bytes *to, int64_t number);
void wire_add_text(bytes *to, const char *text);  /* NULL travels as "" */
void wire_add_list(bytes *to, char *const *list); /* ends with NULL; NULL travels as an empty one */

/* Reads a body from the front. `bad` stays set after the first thing that does not fit; what is read
 * is then the least number or "". */
typedef struct wire_reader {
    const char *at, *end;
    bool bad;
} wire_reader;

int64_t wire_number(wire_reader *r);
int wire_int(wire_reader *r, int min, int max);
const char *wire_text(wire_reader *r); /* inside the body */
/* A list whose pointers are the caller's to free, its texts inside the body. */
char **wire_list(wire_reader *r);

#endif
