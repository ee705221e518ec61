/* phase.h: how far a rank has come in rueda_init. */
#ifndef RUEDA_BOOT_PHASE_H
#define RUEDA_BOOT_PHASE_H

#include <stddef.h>

/* A fault on purpose (RUEDA_FAULT) may befall it there. Not all ways of starting have all of them. */
#define BOOT_PHASE_LIST(X)                                                                         \
    X(START, "start")     /* nobody has heard of it */                                             \
    X(INVITED, "invited") /* on one host: it knows where to meet; rank 0: all do */                \
    X(CALLED, "called")   /* it has called rank 0; rank 0: all have called it */                   \
    X(CARD, "card")       /* its card is sent; rank 0: it has all */                               \
    X(VERDICT, "verdict") /* it has the table of places */                                         \
    X(LINKED, "linked")   /* the control tree is complete as far as it concerns it */              \
    X(MEMORY, "memory")   /* it has the segment of its host */                                     \
    X(READY, "ready")     /* it has said so; rank 0: all have */                                   \
    X(JOINED, "joined")   /* all are there */

typedef enum boot_phase {
    BOOT_PHASE_NONE,
#define X(name, text) BOOT_PHASE_##name,
    BOOT_PHASE_LIST(X)
#undef X
} boot_phase;

/* BOOT_PHASE_NONE: there is none of this name (`length` letters). */
boot_phase boot_phase_named(const char *name, size_t length);

#endif
