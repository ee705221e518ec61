/* bytes.h: base/byte_queue.h for the program, and bytes from and to descriptors. Zero is an empty one.
 *
 * A launcher or agent without memory ends at once; what it leaves is then ended as after a kill (see
 * guard.h and agent.h). So nothing here can fail.
 */
#ifndef RUEDA_CLI_LAUNCH_BYTES_H
#define RUEDA_CLI_LAUNCH_BYTES_H

#include "base/byte_queue.h"

#include <stdbool.h>

typedef byte_queue bytes;

static inline char *bytes_first(const bytes *b)
{
    return b->bytes != NULL ? (char *)b->bytes + b->start : NULL;
}

static inline size_t bytes_used(const bytes *b)
{
    return byte_queue_used(b);
}

void bytes_add(bytes *b, const void *data, size_t count);
void bytes_add_text(bytes *b, const char *text);
void bytes_drop(bytes *b, size_t count); /* from the front */
void bytes_free(bytes *b);

typedef enum bytes_moved { BYTES_MOVED, BYTES_WAIT, BYTES_END } bytes_moved;

/* Reads once from a non-blocking descriptor. BYTES_END: nothing more will come. */
bytes_moved bytes_read(bytes *b, int fd);
/* Writes once, at most `limit` bytes. BYTES_END: nobody reads any more. */
bytes_moved bytes_write(bytes *b, int fd, size_t limit);

/* Says so and ends the process. */
_Noreturn void bytes_end_without_memory(void);

/* Memory of `count` things, all zero; ends the process if there is none. */
void *bytes_new(size_t count, size_t each);

#endif
