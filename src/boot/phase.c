/* phase.c: the names of the phases. */
#include "boot/phase.h"

#include <string.h>

boot_phase boot_phase_named(const char *name, size_t length)
{
    static const char *const names[] = {
#define X(phase, text) text,
        BOOT_PHASE_LIST(X)
#undef X
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strlen(names[i]) == length && memcmp(names[i], name, length) == 0)
            return (boot_phase)(i + 1);
    }
    return BOOT_PHASE_NONE;
}
