/* python.c: see python.h. */
#include "cli/job_file/python.h"

#include "base/os.h"
#include "cli/job_file/own_package.h"
#include "cli/job_file/subprocess.h"
#include "cli/job_file/values.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXIT_SIGNAL 128
#define INSTALL_WORDS 6 /* of pip's command, before the packages */
#define OPEN_FOLDERS 16 /* at the same time, when a tree is removed */
#define NS_PER_S UINT64_C(1000000000)

/* ---- Which environment ------------------------------------------------------------------------- */

static const char *home(void)
{
    const char *text = getenv("HOME");
    const struct passwd *user = text == NULL || text[0] != '/' ? getpwuid(getuid()) : NULL;
    return user != NULL ? user->pw_dir : text;
}

/* False: there is neither a cache nor a home, or its path is too long. */
static bool find_directory(job_python *python, const char *name)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *at = home();
    int length = -1;
    if (cache != NULL && cache[0] == '/')
        length =
            snprintf(python->directory, sizeof python->directory, "%s/rueda/envs/%s", cache, name);
    else if (at != NULL)
        length = snprintf(python->directory, sizeof python->directory, "%s/.cache/rueda/envs/%s",
                          at, name);
    return length > 0 && (size_t)length < sizeof python->directory;
}

static void keep_last(void *context, const char *line)
{
    snprintf(context, JOB_PYTHON_NAME_MAX, "%s", line);
}

/* Learns "3.11" from the interpreter itself. */
static bool ask_version(const char *interpreter, char *version)
{
    char *const command[] = {(char *)interpreter, "-c",
                             "import sys; print('%d.%d' % sys.version_info[:2])", NULL};
    int caught;
    return subprocess_run(command, keep_last, version, &caught) == 0 && job_is_version(version);
}

void job_python_add(job_python *python, const char *package)
{
    if (python->package_count < JOB_PYTHON_PACKAGES_MAX)
        snprintf(python->packages[python->package_count++], JOB_PYTHON_NAME_MAX, "%s", package);
}

/* What pip puts into the environment; our own package is linked (own_package.h). */
static void add_packages(job_python *python, const job_framework *framework, const char *package,
                         const char *version)
{
    char exact[JOB_PYTHON_NAME_MAX];
    snprintf(exact, sizeof exact, "%s==%s", package, version);
    job_python_add(python, exact);
    if (framework->companion != NULL)
        job_python_add(python, framework->companion);
}

bool job_python_find(const job_file *job, bool with_gpus, job_python *python, char *why,
                     size_t why_size)
{
    const job_framework *framework = job_framework_of(job->framework.text);
    const bool small = !with_gpus && framework->cpu_package != NULL;
    const char *package = small ? framework->cpu_package : framework->package;
    const char *wanted = job->python.text != NULL ? job->python.text : "3";
    *python = (job_python){0};
    char version[JOB_PYTHON_NAME_MAX] = "", name[3 * JOB_PYTHON_NAME_MAX];
    snprintf(python->interpreter, sizeof python->interpreter, "%s%s",
             wanted[0] == '/' ? "" : "python", wanted);
    if (!ask_version(python->interpreter, version)) {
        snprintf(why, why_size, "cannot run %s, which was to make the environment for %s",
                 python->interpreter, framework->name);
        return false;
    }
    add_packages(python, framework, package, job->version.text);
    snprintf(name, sizeof name, "%s-%s-py%s", package, job->version.text, version);
    if (find_directory(python, name))
        return true;
    snprintf(why, why_size, "nowhere to keep %s: set HOME or XDG_CACHE_HOME", name);
    return false;
}

/* ---- Files ------------------------------------------------------------------------------------- */

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    remove(path);
    return 0;
}

static void remove_tree(const char *path)
{
    nftw(path, remove_entry, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
}

static bool make_parents(const char *path)
{
    char part[PATH_MAX];
    for (const char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return false;
    }
    return true;
}

static bool is_whole(const job_python *python)
{
    char path[PATH_MAX + sizeof JOB_PYTHON_DONE + 1];
    snprintf(path, sizeof path, "%s/" JOB_PYTHON_DONE, python->directory);
    return access(path, F_OK) == 0;
}

static bool mark_whole(const job_python *python)
{
    char path[PATH_MAX + sizeof JOB_PYTHON_DONE + 1];
    snprintf(path, sizeof path, "%s/" JOB_PYTHON_DONE, python->directory);
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    return fd >= 0 && close(fd) == 0;
}

/* Waits for the right to make it; −1: errno says why not. Closing the descriptor gives it back. */
static int take_lock(const job_python *python)
{
    char path[PATH_MAX + 8];
    snprintf(path, sizeof path, "%s.lock", python->directory);
    if (!make_parents(path))
        return -1;
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
    fprintf(stderr, "rueda run: another job is preparing %s; waiting for it\n",
            python->packages[0]);
    if (flock(fd, LOCK_EX) == 0)
        return fd;
    close(fd);
    return -1;
}

/* ---- Making it --------------------------------------------------------------------------------- */

typedef struct tail {
    bool live; /* stderr is a terminal: the newest line is shown there while the work goes on */
    int count;
    char lines[JOB_PYTHON_TAIL][SUBPROCESS_LINE_MAX];
} tail;

static void hear(void *context, const char *line)
{
    tail *t = context;
    snprintf(t->lines[t->count++ % JOB_PYTHON_TAIL], SUBPROCESS_LINE_MAX, "%s", line);
    if (t->live)
        fprintf(stderr, "\r\033[K  %.70s", line);
}

static void say_failure(const job_python *python, const tail *t, const char *what, int code)
{
    fprintf(stderr, "rueda run: cannot prepare %s: %s ended with %d; it said:\n",
            python->packages[0], what, code);
    const int shown = t->count < JOB_PYTHON_TAIL ? t->count : JOB_PYTHON_TAIL;
    for (int i = t->count - shown; i < t->count; i++)
        fprintf(stderr, "  %s\n", t->lines[i % JOB_PYTHON_TAIL]);
}

static int step(const job_python *python, const char *what, char *const *command)
{
    tail t = {.live = isatty(STDERR_FILENO)};
    int caught;
    const int code = subprocess_run(command, hear, &t, &caught);
    if (t.live && t.count > 0)
        fputs("\r\033[K", stderr);
    if (caught != 0)
        return EXIT_SIGNAL + caught;
    if (code == 0)
        return 0;
    say_failure(python, &t, what, code);
    return EXIT_FAILURE;
}

static int make(const job_python *python)
{
    char own[PATH_MAX + 16];
    snprintf(own, sizeof own, "%s/bin/python", python->directory);
    char *const make_empty[] = {(char *)python->interpreter, "-m", "venv",
                                (char *)python->directory, NULL};
    char *install[INSTALL_WORDS + JOB_PYTHON_PACKAGES_MAX + 1] = {
        own, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"};
    for (int i = 0; i < python->package_count; i++)
        install[INSTALL_WORDS + i] = (char *)python->packages[i];
    const int code = step(python, "python -m venv", make_empty);
    return code == 0 ? step(python, "pip install", install) : code;
}

static int make_locked(const job_python *python)
{
    fprintf(stderr, "rueda run: preparing %s with %s in %s (once)\n", python->packages[0],
            python->interpreter, python->directory);
    const uint64_t start = os_now_ns();
    remove_tree(python->directory); /* what a killed job has left */
    int code = make(python);
    if (code == 0 && !mark_whole(python)) {
        fprintf(stderr, "rueda run: cannot finish %s: %s\n", python->directory, strerror(errno));
        code = EXIT_FAILURE;
    }
    if (code != 0)
        remove_tree(python->directory);
    else
        fprintf(stderr, "rueda run: %s is ready after %d s\n", python->packages[0],
                (int)((os_now_ns() - start) / NS_PER_S));
    return code;
}

static int make_once(const job_python *python)
{
    if (is_whole(python))
        return 0;
    const int lock = take_lock(python);
    if (lock < 0) {
        fprintf(stderr, "rueda run: cannot make %s: %s\n", python->directory, strerror(errno));
        return EXIT_FAILURE;
    }
    const int code = is_whole(python) ? 0 : make_locked(python);
    close(lock);
    return code;
}

int job_python_prepare(const job_python *python)
{
    const int code = make_once(python);
    if (code == 0 && !own_package_link(python->directory))
        fprintf(stderr, "rueda run: going on without the package rueda in %s: %s\n",
                python->directory, strerror(errno));
    return code;
}
