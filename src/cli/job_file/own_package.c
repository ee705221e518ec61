/* own_package.c: see own_package.h. */
#include "cli/job_file/own_package.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATTERN_MAX (PATH_MAX + 64)

/* Where an installer puts packages, seen from the folder of programs; the last is for a program that lies
 * in the package itself. */
static const char *const places[] = {"../lib/python3*/site-packages/rueda/__init__.py",
                                     "../lib/python3*/dist-packages/rueda/__init__.py",
                                     "../__init__.py"};

/* The first path of a pattern. */
static bool find_path(const char *pattern, char path[PATH_MAX])
{
    glob_t found;
    const bool some = glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc > 0 &&
                      strlen(found.gl_pathv[0]) < PATH_MAX;
    if (some)
        strcpy(path, found.gl_pathv[0]);
    globfree(&found);
    return some;
}

static void drop_name(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash != NULL)
        *slash = '\0';
}

static bool find_package(char package[PATH_MAX])
{
    char program[PATH_MAX] = "", pattern[PATTERN_MAX], file[PATH_MAX];
    if (readlink("/proc/self/exe", program, sizeof program - 1) <= 0)
        return false;
    drop_name(program);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        snprintf(pattern, sizeof pattern, "%s/%s", program, places[i]);
        if (!find_path(pattern, file))
            continue;
        drop_name(file);
        return realpath(file, package) != NULL;
    }
    return false;
}

/* Two jobs may do it at the same time: the link is made under a name of our own, then put in place. */
static bool make_link(const char *package, const char *place)
{
    char other[PATTERN_MAX + 16];
    snprintf(other, sizeof other, "%s.%d", place, (int)getpid());
    if (symlink(package, other) != 0)
        return false;
    if (rename(other, place) == 0)
        return true;
    const int reason = errno;
    unlink(other);
    errno = reason;
    return false;
}

bool own_package_link(const char *directory)
{
    char package[PATH_MAX], pattern[PATTERN_MAX], folder[PATH_MAX];
    char place[PATTERN_MAX], before[PATH_MAX] = "";
    struct stat info;
    snprintf(pattern, sizeof pattern, "%s/lib/python3*/site-packages", directory);
    if (!find_package(package) || !find_path(pattern, folder))
        return true;
    snprintf(place, sizeof place, "%s/rueda", folder);
    if (lstat(place, &info) == 0 && !S_ISLNK(info.st_mode))
        return true;
    if (readlink(place, before, sizeof before - 1) > 0 && strcmp(before, package) == 0)
        return true;
    return make_link(package, place);
}
