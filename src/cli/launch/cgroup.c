/* cgroup.c: see cgroup.h. Groups are named "rueda-PID-INDEX" by the process that makes them; what a
 * killed one has left is removed by the next. */
#include "cli/launch/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES (PATH_MAX + 256)
#define REMOVE_PAUSE_NS 2000000 /* between two tries to remove a group … */
#define REMOVE_TRIES 500        /* … and how many of them */

/* ---- The two versions -------------------------------------------------------------------------- */

typedef struct version {
    const char *mount_type; /* in /proc/self/mounts */
    const char *mount_has;  /* among its options; NULL: does not matter */
    const char *controller; /* in /proc/self/cgroup; "": the line of version 2 */
    const char *limit, *swap_limit;
    bool swap_counts_both; /* the swap limit is of memory and swap together */
    const char *events;    /* "oom_kill" there counts processes killed for memory */
} version;

static const version versions[] = {
    {"cgroup2", NULL, "", "memory.max", "memory.swap.max", false, "memory.events"},
    {"cgroup", "memory", "memory", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", true,
     "memory.oom_control"},
};

/* ---- Files ------------------------------------------------------------------------------------- */

static bool write_file(const char *folder, const char *name, const char *text)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    const bool written = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return written;
}

static void read_file(const char *folder, const char *name, char *text, size_t size)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t count = fd >= 0 ? read(fd, text, size - 1) : 0;
    text[count > 0 ? count : 0] = '\0';
    if (fd >= 0)
        close(fd);
}

/* Whether `word` is one of the words of a list. */
static bool has_word(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (; *list != '\0'; list += *list == ',') {
        const size_t here = strcspn(list, ",");
        if (here == length && strncmp(list, word, length) == 0)
            return true;
        list += here;
    }
    return false;
}

/* ---- Where we are ------------------------------------------------------------------------------ */

static bool find_mount(const version *v, char to[PATH_MAX])
{
    char line[LINE_MAX_BYTES], folder[PATH_MAX], type[64], options[512];
    FILE *file = fopen("/proc/self/mounts", "re");
    bool found = false;
    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "%*s %4095s %63s %511s", folder, type, options) == 3 &&
            strcmp(type, v->mount_type) == 0 &&
            (v->mount_has == NULL || has_word(options, v->mount_has))) {
            snprintf(to, PATH_MAX, "%s", folder);
            found = true;
        }
    }
    if (file != NULL)
        fclose(file);
    return found;
}

/* Our path below the mount; a line is "number:controllers:path". */
static bool find_path(const version *v, char to[PATH_MAX])
{
    char line[LINE_MAX_BYTES];
    FILE *file = fopen("/proc/self/cgroup", "re");
    bool found = false;
    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        char *controllers = strchr(line, ':'), *path;
        if (controllers == NULL || (path = strchr(controllers + 1, ':')) == NULL)
            continue;
        *path++ = '\0';
        path[strcspn(path, "\n")] = '\0';
        controllers++;
        found = v->controller[0] == '\0' ? controllers[0] == '\0'
                                         : has_word(controllers, v->controller);
        if (found)
            snprintf(to, PATH_MAX, "%s", path);
    }
    if (file != NULL)
        fclose(file);
    return found;
}

/* Our own group, and the one that it is in: "" if ours is the first. */
static bool find_own(const version *v, char own[PATH_MAX], char above[PATH_MAX])
{
    char mount[PATH_MAX], path[PATH_MAX];
    if (!find_mount(v, mount) || !find_path(v, path))
        return false;
    const bool first = strcmp(path, "/") == 0;
    struct stat info;
    if (snprintf(own, PATH_MAX, "%s%s", mount, first ? "" : path) >= PATH_MAX ||
        stat(own, &info) != 0)
        return false;
    snprintf(above, PATH_MAX, "%.*s", first ? 0 : (int)(strrchr(own, '/') - own), own);
    return true;
}

int64_t cgroup_own_limit(void)
{
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        char own[PATH_MAX], above[PATH_MAX], text[32] = "";
        if (!find_own(&versions[i], own, above))
            continue;
        read_file(own, versions[i].limit, text, sizeof text);
        const int64_t limit = strtoll(text, NULL, 10); /* "max" is no number */
        if (limit > 0 && limit < least)
            least = limit;
    }
    return least;
}

/* ---- Making and using -------------------------------------------------------------------------- */

/* A number that no running process has belongs to one that was killed. */
static void remove_left_overs(const char *parent)
{
    DIR *folder = opendir(parent);
    if (folder == NULL)
        return;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char path[PATH_MAX + 256];
        int pid;
        if (sscanf(entry->d_name, "rueda-%d-", &pid) != 1 || kill(pid, 0) == 0 || errno != ESRCH)
            continue;
        snprintf(path, sizeof path, "%s/%s", parent, entry->d_name);
        rmdir(path);
    }
    closedir(folder);
}

static bool set_limits(const version *v, const char *path, int64_t bytes)
{
    char limit[32];
    snprintf(limit, sizeof limit, "%lld", (long long)bytes);
    if (!write_file(path, v->limit, limit))
        return false;
    write_file(path, v->swap_limit, v->swap_counts_both ? limit : "0"); /* where swap is counted */
    return true;
}

static bool make_below(const version *v, const char *parent, cgroup *g, int index, int64_t bytes)
{
    remove_left_overs(parent);
    const int length =
        snprintf(g->path, sizeof g->path, "%s/rueda-%d-%d", parent, (int)getpid(), index);
    if (length < (int)sizeof g->path && mkdir(g->path, 0777) == 0) {
        if (set_limits(v, g->path, bytes))
            return true;
        rmdir(g->path);
    }
    g->path[0] = '\0';
    return false;
}

bool cgroup_make(cgroup *g, int index, int64_t bytes)
{
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        const version *v = &versions[i];
        char own[PATH_MAX], above[PATH_MAX];
        if (!find_own(v, own, above))
            continue;
        if (make_below(v, own, g, index, bytes))
            return true;
        /* Version 2 hands a controller on only if asked to, and only where no process is. */
        if (write_file(own, "cgroup.subtree_control", "+memory") &&
            make_below(v, own, g, index, bytes))
            return true;
        if (above[0] != '\0' && make_below(v, above, g, index, bytes))
            return true;
    }
    g->path[0] = '\0';
    return false;
}

bool cgroup_enter(const cgroup *g)
{
    return g->path[0] != '\0' && write_file(g->path, "cgroup.procs", "0");
}

bool cgroup_was_full(const cgroup *g)
{
    for (size_t i = 0; i < sizeof versions / sizeof versions[0] && g->path[0] != '\0'; i++) {
        char text[512];
        read_file(g->path, versions[i].events, text, sizeof text);
        const char *kills = strstr(text, "oom_kill ");
        if (kills != NULL && strtol(kills + strlen("oom_kill "), NULL, 10) > 0)
            return true;
    }
    return false;
}

/* What a rank has started and left behind. */
static void kill_members(const cgroup *g)
{
    char text[4096] = "";
    read_file(g->path, "cgroup.procs", text, sizeof text);
    char *rest = text;
    for (long pid; (pid = strtol(rest, &rest, 10)) > 0;)
        kill((pid_t)pid, SIGKILL);
}

void cgroup_remove(cgroup *g)
{
    const struct timespec pause = {0, REMOVE_PAUSE_NS};
    bool removed = g->path[0] == '\0' || rmdir(g->path) == 0;
    /* a process that was just killed still counts until the kernel has taken it apart */
    for (int i = 0; i < REMOVE_TRIES && !removed && errno == EBUSY; i++) {
        kill_members(g);
        nanosleep(&pause, NULL);
        removed = rmdir(g->path) == 0;
    }
    g->path[0] = '\0';
}
