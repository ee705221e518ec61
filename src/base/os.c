/* os.c: the Linux side of os.h. */
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LARGE_PAGE ((size_t)2 << 20)
#define SHORT_TURN_NS 100000 /* the least the kernel grants */
#define HUMBLE_NICE 19       /* a hundredth of a core that is busy */

static uint64_t read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t os_now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t os_now_coarse_ns(void)
{
    return read_clock(CLOCK_MONOTONIC_COARSE);
}

void os_sleep_on(_Atomic uint32_t *word, uint32_t seen, uint64_t timeout_ns, bool shared)
{
    const struct timespec timeout = {(time_t)(timeout_ns / 1000000000u),
                                     (long)(timeout_ns % 1000000000u)};
    syscall(SYS_futex, word, shared ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE, seen, &timeout, NULL, 0);
}

void os_wake(_Atomic uint32_t *word, bool shared)
{
    syscall(SYS_futex, word, shared ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

int os_cpu_count(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return (int)sysconf(_SC_NPROCESSORS_ONLN);
    return CPU_COUNT(&set);
}

void os_cpus_allowed(os_cpus *cpus)
{
    cpu_set_t set;
    *cpus = (os_cpus){{0}};
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    for (int i = 0; i < OS_CPU_WORDS * 64 && i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &set))
            cpus->words[i / 64] |= UINT64_C(1) << i % 64;
    }
}

int os_cpu_now(void)
{
    return sched_getcpu();
}

void os_yield(void)
{
    sched_yield();
}

/* The kernel's struct sched_attr, first version. */
struct turn_request {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

void os_prefer_short_turns(void)
{
    const struct turn_request request = {.size = sizeof request,
                                         .policy = SCHED_OTHER,
                                         .nice = getpriority(PRIO_PROCESS, 0),
                                         .runtime = SHORT_TURN_NS};
    syscall(SYS_sched_setattr, 0, &request, 0);
}

void os_lower_priority(void)
{
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), HUMBLE_NICE);
    os_prefer_short_turns(); /* so that those who need the core do not wait long for it */
}

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

int os_process_open(int pid)
{
    const int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd >= 0)
        return fd;
    return errno == ESRCH ? OS_PROCESS_GONE : OS_PROCESS_UNKNOWN;
}

bool os_process_dead(int process_fd)
{
    struct pollfd poll_fd = {process_fd, POLLIN, 0};
    return process_fd == OS_PROCESS_GONE || (process_fd >= 0 && poll(&poll_fd, 1, 0) == 1);
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

void os_machine_name(char *name, size_t size)
{
    char boot[64] = "";
    struct stat space = {0};
    const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    const ssize_t length = fd < 0 ? 0 : read(fd, boot, sizeof boot - 1);
    if (fd >= 0)
        close(fd);
    if (length <= 0)
        gethostname(boot, sizeof boot - 1);
    boot[strcspn(boot, "\n")] = '\0';
    stat("/proc/self/ns/net", &space);
    snprintf(name, size, "%.40s/%llu", boot, (unsigned long long)space.st_ino);
}
