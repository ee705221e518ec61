/* python.h: a Python environment with one version of a framework, made once and kept in the cache.
 *
 * It lies in ${XDG_CACHE_HOME:-~/.cache}/rueda/envs/PACKAGE-VERSION-pyX.Y. environment.py makes it; its text is in the
 * program, and the job's own interpreter runs it.
 */
#ifndef RUEDA_CLI_JOB_FILE_PYTHON_H
#define RUEDA_CLI_JOB_FILE_PYTHON_H

#include "cli/job_file/job_file.h"

#include <limits.h>

#define JOB_PYTHON_NAME_MAX 128 /* bytes of a requirement or a version */
#define JOB_PYTHON_PACKAGES_MAX 4

typedef struct job_python {
    char directory[PATH_MAX];   /* the environment */
    char interpreter[PATH_MAX]; /* what makes it: "python3.11", or a path */
    int package_count;
    char packages[JOB_PYTHON_PACKAGES_MAX][JOB_PYTHON_NAME_MAX]; /* "torch==2.13.0", "numpy" */
} job_python;

/* Adds something to install. */
void job_python_add(job_python *python, const char *package);

/* Fills `python` for a job that has a version; runs the interpreter to learn its own. `with_gpus`: the
 * processes will see GPUs. False: the sentence in `why` says what is missing. */
bool job_python_find(const job_file *job, bool with_gpus, job_python *python, char *why,
                     size_t why_size);

/* Makes the environment unless it is whole; may take minutes, and shows on stderr what it does.
 * Returns the exit code: 0, 1 with one line on stderr that ends with what pip said last, or 128 + the
 * number of the signal that ended it. Nothing is left of what failed. */
int job_python_prepare(const job_python *python);

#endif
