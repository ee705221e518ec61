/* os.h: memory and files of the operating system, in the few calls Rueda needs; time, threads and sockets are
 * the world's. Linux now; only os.c knows that. */
#ifndef RUEDA_BASE_OS_H
#define RUEDA_BASE_OS_H

#include "base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define OS_CACHE_LINE 64
#define OS_PAGE 4096

/* Processors, a bit each. */
#define OS_CPU_WORDS 16
typedef struct os_cpus {
    uint64_t words[OS_CPU_WORDS];
} os_cpus;

/* Says that another core will read this memory next: on processors that know the hint the lines move
 * to the shared cache, from where they are read two to three times faster; but it costs the writer as
 * much, so it is for few lines. Other processors ignore it. */
static inline void os_share(const void *start, size_t bytes)
{
#if defined(__x86_64__)
    const char *line = (const char *)((uintptr_t)start & ~(uintptr_t)(OS_CACHE_LINE - 1));
    for (const char *end = (const char *)start + bytes; line < end; line += OS_CACHE_LINE)
        __asm__ volatile("cldemote %0" ::"m"(*line));
#else
    (void)start;
    (void)bytes;
#endif
}

/* Anonymous shared memory of `bytes` (sparse), sealed against shrinking and growing. */
rueda_status os_shared_create(uint64_t bytes, int *fd);
/* Backs a range with memory now, so that running out is a status and never a signal. */
rueda_status os_shared_commit(int fd, uint64_t offset, uint64_t bytes);
/* Gives the memory of a range back; it reads as zeros afterwards. */
void os_shared_discard(int fd, uint64_t offset, uint64_t bytes);
/* The mapping is in no forked child (but see os_inherit) and in no core dump. */
rueda_status os_shared_map(int fd, uint64_t bytes, void **base);
/* Bytes of such a file that another process has made. */
rueda_status os_shared_size(int fd, uint64_t *bytes);
void os_unmap(void *base, uint64_t bytes);
/* Lets forked children see whole pages of a mapping that is otherwise kept from them. */
void os_inherit(void *start, uint64_t bytes);
/* Makes whole pages of a mapping private: they keep their content, and from the return on others see
 * and change them no more. Threads may use them meanwhile. ERR_MEMORY: nothing has changed. */
rueda_status os_shared_detach(int fd, void *start, uint64_t offset, uint64_t bytes);
/* Gives the copies of such pages back; their content is then undefined. Shared ones stay as they are. */
void os_private_discard(void *start, uint64_t bytes);

/* Memory for large, long-lived buffers, in large pages where the system has them; given back with free.
 * Aligned to a cache line at least; NULL: there is none. */
void *os_large_alloc(size_t bytes);

/* Memory for keys, zeroed: whole pages that are in no core dump. NULL: there is none. Freeing wipes it; NULL
 * is allowed. */
void *os_secret_alloc(size_t bytes);
void os_secret_free(void *secret, size_t bytes);

/* Lets two files exchange their names at one moment: nobody finds either name missing. False: the file
 * system cannot (errno). */
bool os_exchange_files(const char *a, const char *b);

/* Whether anybody but the caller has the file open that the caller has open for writing; false also where
 * the file system cannot tell. */
bool os_is_open_elsewhere(int fd);

/* Process numbers mean the same to processes for which this is the same. */
uint64_t os_process_space(void);

#endif
