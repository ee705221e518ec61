/* fault.h: faults on purpose, for tests: what befalls which rank before which step (RUEDA_FAULT).
 *
 *     kill:rank=1:operation=5:step=12          SIGKILL
 *     kill:rank=1:init=card                    SIGKILL inside rueda_init, see BOOT_PHASE_LIST
 *     stop:rank=1:operation=5                  SIGSTOP; someone else must send SIGCONT
 *     delay:rank=1:operation=5:step=3:ms=50    the driving thread sleeps
 *     cut:rank=1:operation=5:peer=2            the connections to a rank are shut down
 *     cut-data:…, cut-tree:…                   those for data, or for control, alone
 *
 * `rank`, and `ms` or `peer` where there is one, must be given; `set`, `operation` and `step` are 0
 * otherwise. Operations are numbered in the order in which their set launches them, steps as this rank
 * executes them, through all ticks of the operation. A step that the operation does not reach is a
 * fault that never happens. Ranks that share memory have nothing to cut.
 */
#ifndef RUEDA_EXEC_FAULT_H
#define RUEDA_EXEC_FAULT_H

#include "control/control.h"

typedef enum fault_kind { FAULT_NONE, FAULT_KILL, FAULT_STOP, FAULT_DELAY, FAULT_CUT } fault_kind;

typedef struct fault {
    fault_kind kind;
    mesh_links links; /* cut */
    uint64_t rank, set, operation, step;
    uint64_t
        init;    /* kill: boot_phase, and no operation is meant; BOOT_PHASE_NONE: it is not there */
    uint64_t ms; /* delay */
    uint64_t peer; /* cut */
    bool done;     /* it happens once */
} fault;

/* "" is no fault. ERR_CONFIG: what is wrong, and what to write. */
rueda_status fault_parse(const char *text, fault *f);

/* The fault if it is meant for this operation of this rank, else NULL. */
static inline fault *fault_for(fault *f, uint32_t rank, uint32_t set, uint64_t operation)
{
    const bool meant =
        f->kind != FAULT_NONE && f->init == BOOT_PHASE_NONE && f->rank == rank && f->set == set;
    return meant && f->operation == operation ? f : NULL;
}

/* Where in rueda_init this rank is to die. */
static inline boot_phase fault_in_init(const fault *f, int64_t rank)
{
    return f->rank == (uint64_t)rank ? (boot_phase)f->init : BOOT_PHASE_NONE;
}

/* Before each try of a step. */
void fault_before_step(fault *f, uint64_t step, const control *c);

#endif
