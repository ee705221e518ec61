/* dump_testing.h: whether bytes lie anywhere in this process where a core dump would show them. */
#ifndef RUEDA_BASE_DUMP_TESTING_H
#define RUEDA_BASE_DUMP_TESTING_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DUMP_MASK 0x5a   /* what is looked for is given masked, or it would find itself */
#define DUMP_PIECE 65536 /* bytes read at once; a page is in one piece always */

/* To be called first. A library that is bound function by function, at the first use, saves the vector
 * registers on the stack each time, with what is left of keys in them. Nothing of ours is bound so, but a
 * sanitizer's runtime is: with it the program starts again, and binds all. */
static inline void dump_begin(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    if (getenv("LD_BIND_NOW") != NULL)
        return;
    setenv("LD_BIND_NOW", "1", 1);
    execl("/proc/self/exe", "dump_test", (char *)NULL);
    abort();
#endif
}

static inline bool dump_piece_has(const uint8_t *piece, size_t bytes, const uint8_t *masked,
                                  size_t count)
{
    for (size_t i = 0; i + count <= bytes; i++) {
        size_t k = 0;
        while (k < count && (piece[i + k] ^ DUMP_MASK) == masked[k])
            k++;
        if (k == count)
            return true;
    }
    return false;
}

/* Of the mapping that begins at `first`; read through the system, as a dump is. */
static inline bool dump_mapping_has(int memory, unsigned long first, unsigned long end,
                                    const uint8_t *masked, size_t count)
{
    static uint8_t piece[DUMP_PIECE];
    bool found = false;
    for (unsigned long at = first; at < end && !found; at += sizeof piece) {
        const size_t want = end - at < sizeof piece ? end - at : sizeof piece;
        const ssize_t got = pread(memory, piece, want, (off_t)at);
        found = got > 0 && dump_piece_has(piece, (size_t)got, masked, count);
        memset(piece, 0, sizeof piece); /* what was read must not be found again */
    }
    return found;
}

static inline bool dump_has(const uint8_t *masked, size_t count)
{
    char line[512];
    unsigned long first = 0, end = 0;
    bool found = false;
    FILE *maps = fopen("/proc/self/smaps", "re");
    const int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    if (maps == NULL || memory < 0)
        abort();
    while (!found && fgets(line, sizeof line, maps) != NULL) {
        unsigned long from, to;
        char reads;
        if (sscanf(line, "%lx-%lx %c", &from, &to, &reads) == 3 && (reads == 'r' || reads == '-'))
            first = from, end = reads == 'r' ? to : from; /* sanitizers reserve terabytes */
        else if (strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " dd") == NULL)
            found = dump_mapping_has(memory, first, end, masked, count);
    }
    fclose(maps);
    close(memory);
    return found;
}

/* Whether the kernel leaves the mapping at this address out of core dumps. */
static inline bool dump_leaves_out(const void *address)
{
    char line[512];
    bool inside = false, left_out = false;
    FILE *maps = fopen("/proc/self/smaps", "re");
    if (maps == NULL)
        abort();
    while (fgets(line, sizeof line, maps) != NULL) {
        unsigned long first, end;
        if (sscanf(line, "%lx-%lx ", &first, &end) == 2)
            inside = first <= (unsigned long)address && (unsigned long)address < end;
        else if (inside && strncmp(line, "VmFlags:", 8) == 0)
            left_out = strstr(line, " dd ") != NULL;
    }
    fclose(maps);
    return left_out;
}

#endif
