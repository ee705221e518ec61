/* memory.c: what a process has allocated and mapped. The linker lets all objects of a simulation call these functions
 * instead of the C library's (--wrap). Nothing lies before a block: the C library frees blocks of its own by the same
 * name, and those are in no list.
 *
 * Invariant: a block is in the table exactly if a fiber allocated it and nobody freed it. */
#include "world/sim/sim_parts.h"

#include "world/sim/wrapped.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct sim_block {
    void *address;
    size_t bytes;
    sim_process *owner;
    sim_block *next, *previous; /* of the process */
    sim_block *chain;           /* in the table */
};

#define TABLE_BITS 14

/* Found by address, and never walked through: so it may depend on addresses. */
static sim_block *table[1u << TABLE_BITS];

static sim_block **bucket(const void *address)
{
    return &table[(uintptr_t)address * UINT64_C(0x9e3779b97f4a7c15) >> (64 - TABLE_BITS)];
}

static void block_note(void *address, size_t bytes)
{
    sim_fiber *f = sim_running();
    if (f == NULL || address == NULL)
        return;
    sim_process *p = f->process;
    sim_block *b = sim_allocate(sizeof *b);
    *b = (sim_block){.address = address, .bytes = bytes, .owner = p, .next = p->blocks};
    if (p->blocks != NULL)
        p->blocks->previous = b;
    p->blocks = b;
    p->block_count++;
    p->block_bytes += bytes;
    sim_block **at = bucket(address);
    b->chain = *at;
    *at = b;
}

static void block_forget(const void *address)
{
    if (sim_world == NULL || address == NULL)
        return;
    sim_block **at = bucket(address);
    while (*at != NULL && (*at)->address != address)
        at = &(*at)->chain;
    sim_block *b = *at;
    if (b == NULL)
        return;
    *at = b->chain;
    if (b->previous != NULL)
        b->previous->next = b->next;
    else
        b->owner->blocks = b->next;
    if (b->next != NULL)
        b->next->previous = b->previous;
    b->owner->block_count--;
    b->owner->block_bytes -= b->bytes;
    sim_release(b);
}

/* ---- Blocks --------------------------------------------------------------------------------------------- */

static bool refuses(const char *call)
{
    if (!sim_refuses(call))
        return false;
    errno = ENOMEM;
    return true;
}

void *__wrap_malloc(size_t bytes)
{
    if (refuses("malloc"))
        return NULL;
    void *made = __real_malloc(bytes);
    block_note(made, bytes);
    return made;
}

void *__wrap_calloc(size_t count, size_t each)
{
    if (refuses("calloc"))
        return NULL;
    void *made = __real_calloc(count, each);
    block_note(made, count * each);
    return made;
}

void *__wrap_realloc(void *block, size_t bytes)
{
    if (refuses("realloc"))
        return NULL;
    block_forget(block);
    void *made = __real_realloc(block, bytes);
    block_note(made, bytes);
    return made;
}

void __wrap_free(void *block)
{
    block_forget(block);
    __real_free(block);
}

int __wrap_posix_memalign(void **block, size_t alignment, size_t bytes)
{
    if (refuses("posix_memalign"))
        return ENOMEM;
    const int result = __real_posix_memalign(block, alignment, bytes);
    if (result == 0)
        block_note(*block, bytes);
    return result;
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    if (refuses("aligned_alloc"))
        return NULL;
    void *made = __real_aligned_alloc(alignment, bytes);
    block_note(made, bytes);
    return made;
}

char *__wrap_strndup(const char *text, size_t most)
{
    const size_t length = strnlen(text, most);
    char *made = __wrap_malloc(length + 1);
    if (made == NULL)
        return NULL;
    memcpy(made, text, length);
    made[length] = '\0';
    return made;
}

char *__wrap_strdup(const char *text)
{
    return __wrap_strndup(text, strlen(text));
}

/* ---- Mappings ---------------------------------------------------------------------------------------------- */

static void mapping_add(sim_process *p, sim_mapping m)
{
    p->mappings = sim_grow(p->mappings, p->mapping_count, &p->mapping_room, sizeof m);
    p->mappings[p->mapping_count++] = m;
}

/* What lies in the range is mapped no more; pieces before and behind it stay. */
static void mapping_cut(sim_process *p, uintptr_t start, uintptr_t end)
{
    for (size_t i = 0; i < p->mapping_count; i++) {
        const sim_mapping m = p->mappings[i];
        if (m.end <= start || m.start >= end)
            continue;
        p->mappings[i--] = p->mappings[--p->mapping_count];
        if (m.start < start) {
            sim_mapping before = m;
            before.end = start;
            mapping_add(p, before);
        }
        if (m.end > end) {
            sim_mapping behind = m;
            behind.offset += end - m.start;
            behind.start = end;
            mapping_add(p, behind);
        }
    }
}

void *__wrap_mmap(void *start, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    sim_fiber *f = sim_running();
    if (f != NULL && refuses("mmap"))
        return MAP_FAILED;
    void *made = __real_mmap(start, bytes, protection, flags, fd, offset);
    if (f == NULL || made == MAP_FAILED)
        return made;
    const uintptr_t at = (uintptr_t)made, end = at + (bytes + 4095) / 4096 * 4096;
    sim_mapping m = {.start = at, .end = end};
    struct stat file;
    if ((flags & MAP_TYPE) != MAP_PRIVATE && fd >= 0 && fstat(fd, &file) == 0) {
        m.device = file.st_dev;
        m.file = file.st_ino;
        m.offset = (uint64_t)offset;
    }
    if ((flags & MAP_FIXED) != 0)
        mapping_cut(f->process, at, end);
    mapping_add(f->process, m);
    return made;
}

int __wrap_munmap(void *start, size_t bytes)
{
    sim_fiber *f = sim_running();
    if (f != NULL)
        mapping_cut(f->process, (uintptr_t)start, (uintptr_t)start + (bytes + 4095) / 4096 * 4096);
    return __real_munmap(start, bytes);
}

int __wrap_memfd_create(const char *name, unsigned flags)
{
    if (sim_refuses("memfd_create")) {
        errno = EMFILE;
        return -1;
    }
    const int made = __real_memfd_create(name, flags);
    if (sim_process_now() >= 0)
        sim_real_note(made, sim_process_now());
    return made;
}

static int refuse_room(void)
{
    errno = ENOSPC;
    return -1;
}

int __wrap_ftruncate(int fd, off_t bytes)
{
    return sim_refuses("ftruncate") ? refuse_room() : __real_ftruncate(fd, bytes);
}

/* A hole can always be made. */
int __wrap_fallocate(int fd, int mode, off_t at, off_t bytes)
{
    return mode == 0 && sim_refuses("fallocate") ? refuse_room()
                                                 : __real_fallocate(fd, mode, at, bytes);
}

sim_word sim_word_find(const sim_process *p, const void *address, bool shared)
{
    const uintptr_t at = (uintptr_t)address;
    for (size_t i = 0; i < p->mapping_count && shared; i++) {
        const sim_mapping *m = &p->mappings[i];
        if (at >= m->start && at < m->end && m->file != 0)
            return (sim_word){m->device, m->file, m->offset + (at - m->start)};
    }
    return (sim_word){0, 0, at};
}

void sim_memory_free(sim_process *p)
{
    while (p->blocks != NULL)
        __wrap_free(p->blocks->address);
    for (size_t i = 0; i < p->mapping_count; i++)
        __real_munmap((void *)p->mappings[i].start, p->mappings[i].end - p->mappings[i].start);
    sim_release(p->mappings);
}

/* ---- Machines ------------------------------------------------------------------------------------------------ */

/* Not every machine has the instructions, and a run is to be the same on all. */
int __wrap_crypto_aead_aes256gcm_is_available(void)
{
    return 0;
}
