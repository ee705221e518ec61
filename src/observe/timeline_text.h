/* timeline_text.h: from notes to the lines of a timeline's file.
 *
 * One event a line, the process first: {"pid": 7, "tid": 0, "ph": "B", …}. The number of a tensor follows
 * from its name, so ranks that never spoke of it give it the same one and their lines can stand in one
 * file. Invariant: the events of a tensor on a rank never go back in time, and every B has its E.
 */
#ifndef RUEDA_OBSERVE_TIMELINE_TEXT_H
#define RUEDA_OBSERVE_TIMELINE_TEXT_H

#include "base/byte_queue.h"
#include "base/status.h"
#include "observe/note_ring.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TIMELINE_NAMES_MAX                                                                         \
    65536                  /* tensors that are remembered; beyond it all that rest are forgotten */
#define TIMELINE_OWN_PID 0 /* the process of what belongs to no tensor */

typedef enum timeline_note_kind {
    TIMELINE_NOTE_WAITING,
    TIMELINE_NOTE_NEGOTIATED,
    TIMELINE_NOTE_DONE,
    TIMELINE_NOTE_ROUND
} timeline_note_kind;

typedef struct timeline_ready {
    uint64_t ns, rank;
} timeline_ready;

/* `ready_count` timeline_ready, `ndim` extents and `name_length` characters follow it. */
typedef struct timeline_note {
    note_head head;
    uint8_t kind, dtype, ndim, zero;
    int32_t set;
    uint32_t status, name_length, ready_count, tensors;
    const char *op, *engine, *algorithm;
    uint64_t submitted_ns, began_ns, ended_ns;
    uint64_t decided_ns; /* WAITING, ROUND: the time of the note */
    uint64_t number;     /* of the operation, or of the round */
} timeline_note;

typedef struct timeline_row timeline_row; /* a tensor */

typedef struct timeline_text {
    byte_queue text; /* lines with ",\n" between them */
    uint64_t notes;  /* in it */
    int rank;
    int64_t offset_ns;
    uint64_t start_ns; /* what was before it is left out, or cut */
    timeline_row **rows;
    uint32_t row_count, next_order;
} timeline_text;

/* ERR_MEMORY. */
rueda_status timeline_text_init(timeline_text *t, int rank, uint64_t start_ns);
void timeline_text_fini(timeline_text *t); /* safe on a zeroed one */

/* Adds the events of a note. False: out of memory, the note is lost. */
bool timeline_text_add(timeline_text *t, const timeline_note *note);
/* Says that notes were dropped. */
void timeline_text_add_dropped(timeline_text *t, uint64_t count, uint64_t now_ns);
/* Ends what is still open. */
void timeline_text_close(timeline_text *t, uint64_t now_ns);
/* The text was written, or is given up. */
void timeline_text_clear(timeline_text *t);

/* The lines every file starts with. Static. */
const char *timeline_text_first(void);

#endif
