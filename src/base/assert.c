/* assert.c: the end after a failed assertion; the simulated world has its own. */
#include "base/assert.h"

#if defined(RUEDA_ASSERTS) && !defined(RUEDA_SIMULATED)
#include <stdio.h>
#include <stdlib.h>

void assert_failed(const char *what, const char *file, int line)
{
    fprintf(stderr, "rueda: a bug: %s:%d: not so: %s\n", file, line, what);
    abort();
}
#else
typedef int nothing_here;
#endif
