/* os.c: the Linux side of os.h. */
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LARGE_PAGE ((size_t)2 << 20)

rueda_status os_shared_create(uint64_t bytes, int *fd)
{
    const int made = memfd_create("rueda", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (made < 0)
        return status_fail_errno(RUEDA_ERR_SYSTEM, "cannot make shared memory");
    if (ftruncate(made, (off_t)bytes) != 0 ||
        fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
        status_fail_errno(RUEDA_ERR_SYSTEM, "cannot size shared memory to %llu bytes",
                          (unsigned long long)bytes);
        close(made);
        return RUEDA_ERR_SYSTEM;
    }
    *fd = made;
    return RUEDA_OK;
}

rueda_status os_shared_commit(int fd, uint64_t offset, uint64_t bytes)
{
    if (bytes == 0)
        return RUEDA_OK;
    int result;
    do
        result = fallocate(fd, 0, (off_t)offset, (off_t)bytes);
    while (result != 0 && errno == EINTR);
    if (result != 0)
        return status_fail_errno(RUEDA_ERR_MEMORY, "cannot get %llu bytes of shared memory",
                                 (unsigned long long)bytes);
    return RUEDA_OK;
}

void os_shared_discard(int fd, uint64_t offset, uint64_t bytes)
{
    fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes);
}

/* Out of forked children, and out of core dumps: a dump would read, and so allocate, all that is only
 * reserved. */
static void keep_out(void *mapped, uint64_t bytes)
{
    madvise(mapped, bytes, MADV_DONTFORK);
    madvise(mapped, bytes, MADV_DONTDUMP);
}

rueda_status os_shared_map(int fd, uint64_t bytes, void **base)
{
    void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (mapped == MAP_FAILED)
        return status_fail_errno(RUEDA_ERR_SYSTEM,
                                 "cannot map %llu bytes of shared memory; a smaller RUEDA_HEAP_MAX "
                                 "needs less address space",
                                 (unsigned long long)bytes);
    keep_out(mapped, bytes);
    *base = mapped;
    return RUEDA_OK;
}

/* One write to every page that changes nothing, also when another thread writes there, too. */
static void touch_pages(uint8_t *start, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += OS_PAGE)
        atomic_fetch_or_explicit((_Atomic uint8_t *)(start + at), 0, memory_order_relaxed);
}

/* Over the same file: what was written before stays, and each page is copied by the first write. */
rueda_status os_shared_detach(int fd, void *start, uint64_t offset, uint64_t bytes)
{
    void *mapped = mmap(start, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fd, (off_t)offset);
    if (mapped == MAP_FAILED)
        return status_fail_errno(RUEDA_ERR_MEMORY, "cannot copy %llu bytes of shared memory",
                                 (unsigned long long)bytes);
    keep_out(mapped, bytes);
    touch_pages(start, bytes);
    return RUEDA_OK;
}

void os_private_discard(void *start, uint64_t bytes)
{
    madvise(start, bytes, MADV_DONTNEED);
}

rueda_status os_shared_size(int fd, uint64_t *bytes)
{
    struct stat file;
    if (fstat(fd, &file) != 0)
        return status_fail_errno(RUEDA_ERR_SYSTEM, "cannot tell the size of shared memory");
    *bytes = (uint64_t)file.st_size;
    return RUEDA_OK;
}

void os_unmap(void *base, uint64_t bytes)
{
    munmap(base, bytes);
}

void os_inherit(void *start, uint64_t bytes)
{
    uint8_t *const first = (uint8_t *)((uintptr_t)start / OS_PAGE * OS_PAGE);
    madvise(first, (size_t)((uint8_t *)start + bytes - first), MADV_DOFORK);
}

bool os_exchange_files(const char *a, const char *b)
{
    return renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) == 0;
}

/* A lease for writing is given to the only one. Who opens the file during the few microseconds that we
 * have it makes the kernel send a signal, by default one that would end the process. */
bool os_is_open_elsewhere(int fd)
{
    if (fcntl(fd, F_SETSIG, SIGURG) != 0)
        return false;
    if (fcntl(fd, F_SETLEASE, F_WRLCK) != 0)
        return errno == EAGAIN;
    fcntl(fd, F_SETLEASE, F_UNLCK);
    return false;
}

uint64_t os_process_space(void)
{
    struct stat space = {0};
    return stat("/proc/self/ns/pid", &space) == 0 ? space.st_ino : 0;
}

/* LeakSanitizer follows pointers in memory of malloc alone, unless it is told of more. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#else
#define __lsan_register_root_region(start, bytes) ((void)0)
#define __lsan_unregister_root_region(start, bytes) ((void)0)
#endif

void *os_secret_alloc(size_t bytes)
{
    void *made = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED)
        return NULL;
    madvise(made, bytes, MADV_DONTDUMP);
    __lsan_register_root_region(made, bytes);
    return made;
}

void os_secret_free(void *secret, size_t bytes)
{
    if (secret == NULL)
        return;
    __lsan_unregister_root_region(secret, bytes);
    explicit_bzero(secret, bytes);
    munmap(secret, bytes);
}

void *os_large_alloc(size_t bytes)
{
    if (bytes < 2 * LARGE_PAGE)
        return aligned_alloc(OS_CACHE_LINE,
                             (bytes + OS_CACHE_LINE - 1) / OS_CACHE_LINE * OS_CACHE_LINE);
    const size_t whole = (bytes + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    void *memory = aligned_alloc(LARGE_PAGE, whole);
    if (memory != NULL)
        madvise(memory, whole, MADV_HUGEPAGE);
    return memory;
}
