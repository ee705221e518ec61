/* timeline_file.h: a JSON array in a file that grows and is complete whenever it is looked at.
 *
 * Nobody can add to an array in one step that readers, or a kill -9, could not cut in two. So there are two
 * files: what bears the name is complete and at rest; the other one, NAME.part, gets what is missing and
 * the new lines, and then the two exchange their names at one moment. What bore the name until then
 * changes with the next addition, unless somebody still has it open: he keeps it, and a new file takes
 * its part.
 * All state is in the files, and a lock on the one that bears the name orders the writers: any number of
 * processes may add to one file. Where the file system cannot exchange names (NFS), lines are written
 * in place over the closing bracket, in one call.
 */
#ifndef RUEDA_OBSERVE_TIMELINE_FILE_H
#define RUEDA_OBSERVE_TIMELINE_FILE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TIMELINE_PATH_MAX 4096
#define TIMELINE_PART ".part"
#define TIMELINE_LOCK_NS UINT64_C(2000000000) /* how long a writer waits for another one */

typedef struct timeline_file {
    char path[TIMELINE_PATH_MAX];
    char part[TIMELINE_PATH_MAX + sizeof TIMELINE_PART];
    const char *first; /* the line an empty array is made with */
    uint64_t max_bytes;
    bool in_place;
} timeline_file;

/* `first` must stay. Finds where a symbolic link leads to. ERR_ARGUMENT: the path is empty or too long.
 * ERR_SYSTEM: it is something else than a file. */
rueda_status timeline_file_init(timeline_file *f, const char *path, const char *first,
                                uint64_t max_bytes);

/* Puts an array of one element there, instead of what is there. ERR_SYSTEM. */
rueda_status timeline_file_create(timeline_file *f);

/* Adds elements (",\n" between them). ERR_SYSTEM: nothing was changed. ERR_MEMORY: the file would get
 * larger than max_bytes. ERR_TIMEOUT: another writer has kept the lock, try again later. */
rueda_status timeline_file_add(timeline_file *f, const char *lines, size_t length);

/* Removes the other file; the one that bears the name stays. */
void timeline_file_finish(timeline_file *f);

#endif
