/* processes.c: this process, others of its host, and chance. */
#include "world/world.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

void world_random(void *to, size_t bytes)
{
    randombytes_buf(to, bytes);
}

void world_machine_name(char *name, size_t size)
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

int world_process(void)
{
    return (int)getpid();
}

int world_process_open(int process)
{
    const int fd = (int)syscall(SYS_pidfd_open, process, 0);
    if (fd >= 0)
        return fd;
    return errno == ESRCH ? WORLD_PROCESS_GONE : WORLD_PROCESS_UNKNOWN;
}

bool world_process_dead(int process_fd)
{
    struct pollfd poll_fd = {process_fd, POLLIN, 0};
    return process_fd == WORLD_PROCESS_GONE || (process_fd >= 0 && poll(&poll_fd, 1, 0) == 1);
}

void world_process_kill(int process_fd)
{
    if (process_fd >= 0)
        syscall(SYS_pidfd_send_signal, process_fd, SIGKILL, NULL, 0);
}

void world_die(void)
{
    raise(SIGKILL);
}

void world_stop(void)
{
    raise(SIGSTOP);
}
