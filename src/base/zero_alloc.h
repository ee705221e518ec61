/* zero_alloc.h: small zeroed memory, fast. glibc's calloc does not use the thread's cache of free
 * blocks; malloc does, which is a fifth of the time of a small operation. */
#ifndef RUEDA_BASE_ZERO_ALLOC_H
#define RUEDA_BASE_ZERO_ALLOC_H

#include <stdlib.h>
#include <string.h>

static inline void *zero_alloc(size_t bytes)
{
    void *memory = malloc(bytes);
    __asm__("" : "+r"(memory)); /* or the compiler makes a calloc of it again */
    return memory == NULL ? NULL : memset(memory, 0, bytes);
}

#endif
