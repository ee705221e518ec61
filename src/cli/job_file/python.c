/* python.c: see python.h. What is done is in environment.py. */
#include "cli/job_file/python.h"

#include "cli/launch/child.h"
#include "cli/launch/subprocess.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAKE_WORDS 8   /* of the command, before the packages */
#define EXIT_NOWHERE 3 /* of environment.py: no place to keep it */

extern const char script_environment[]; /* environment.py; put here by the build */

void job_python_add(job_python *python, const char *package)
{
    if (python->package_count < JOB_PYTHON_PACKAGES_MAX)
        snprintf(python->packages[python->package_count++], JOB_PYTHON_NAME_MAX, "%s", package);
}

/* What pip puts into the environment; our own package is linked. */
static void add_packages(job_python *python, const job_framework *framework, const char *package,
                         const char *version)
{
    char exact[JOB_PYTHON_NAME_MAX];
    snprintf(exact, sizeof exact, "%s==%s", package, version);
    job_python_add(python, exact);
    if (framework->companion != NULL)
        job_python_add(python, framework->companion);
}

/* The folder is the last line. */
static void keep_last(void *context, const char *line)
{
    snprintf(context, PATH_MAX, "%s", line);
}

bool job_python_find(const job_file *job, bool with_gpus, job_python *python, char *why,
                     size_t why_size)
{
    const job_framework *framework = job_framework_of(job->framework.text);
    const bool small = !with_gpus && framework->cpu_package != NULL;
    const char *package = small ? framework->cpu_package : framework->package;
    const char *wanted = job->python.text != NULL ? job->python.text : "3";
    *python = (job_python){0};
    snprintf(python->interpreter, sizeof python->interpreter, "%s%s",
             wanted[0] == '/' ? "" : "python", wanted);
    char *const command[] = {python->interpreter,        "-I",   "-c",
                             (char *)script_environment, "find", (char *)package,
                             (char *)job->version.text,  NULL};
    int caught;
    const int code = subprocess_run(command, keep_last, python->directory, &caught);
    if (caught != 0)
        raise(caught);
    add_packages(python, framework, package, job->version.text);
    const size_t length = strlen(python->directory);
    if (code == 0 && python->directory[0] == '/' && length < SUBPROCESS_LINE_MAX - 1)
        return true;
    if (code == EXIT_NOWHERE || code == 0)
        snprintf(why, why_size, "nowhere to keep %s: set HOME or XDG_CACHE_HOME",
                 python->packages[0]);
    else
        snprintf(why, why_size, "cannot run %s, which was to make the environment for %s",
                 python->interpreter, framework->name);
    return false;
}

int job_python_prepare(const job_python *python)
{
    char program[PATH_MAX] = "";
    if (readlink("/proc/self/exe", program, sizeof program - 1) <= 0)
        strcpy(program, "/rueda"); /* beside which there is no package */
    char *command[MAKE_WORDS + JOB_PYTHON_PACKAGES_MAX + 1] = {(char *)python->interpreter,
                                                               "-I",
                                                               "-c",
                                                               (char *)script_environment,
                                                               "make",
                                                               (char *)python->interpreter,
                                                               program,
                                                               (char *)python->directory};
    for (int i = 0; i < python->package_count; i++)
        command[MAKE_WORDS + i] = (char *)python->packages[i];
    int caught;
    const int code = subprocess_run(command, NULL, NULL, &caught);
    if (caught != 0)
        return EXIT_SIGNAL + caught;
    if (code == EXIT_NOT_FOUND)
        fprintf(stderr, "rueda run: cannot prepare %s: there is no %s here\n", python->packages[0],
                python->interpreter);
    return code == 0 ? 0 : EXIT_FAILURE;
}
