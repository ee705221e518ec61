/* submit.h: a job file for somebody else to run: Slurm, Kubernetes, Azure ML.
 *
 *     job.yaml ──> submit_request ──> a platform writes its file ──> its own program takes that
 *
 * A platform is one file that fills in a submit_platform, and one row in submit.c. It only
 * fills in templates from the request, and starts nothing before all of it is written.
 */
#ifndef RUEDA_CLI_SUBMIT_H
#define RUEDA_CLI_SUBMIT_H

#include "cli/job_file/job_file.h"
#include "cli/options.h"
#include "cli/submit/sheet.h"
#include "net/net.h"

#include <stdio.h>

#define SUBMIT_NAME_MAX 40 /* bytes of a job's name: others are made of it, of at most 63 */
#define SUBMIT_KEY_TEXT (2 * NET_KEY_BYTES + 1)
#define SUBMIT_HIDDEN "(hidden; --output FILE writes it)"

typedef struct submit_platform submit_platform;

/* An option of one platform, as in --help. It may be given again and again. */
typedef struct submit_option {
    const char *name, *value, *help;
} submit_option;

typedef struct submit_values {
    const submit_platform *owner; /* NULL: all */
    const char *name;
    const char **values; /* ends with NULL */
} submit_values;

typedef struct submit_variable {
    const char *name, *value;
} submit_variable;

typedef enum submit_engine { SUBMIT_DEFAULT, SUBMIT_TCP, SUBMIT_MPI } submit_engine;

/* What is to run, in words that all platforms share. */
typedef struct submit_request {
    const char *path; /* of the job file */
    job_file *file;   /* its lines, and what it lives in */
    const submit_platform *platform;
    submit_engine engine;
    char name[SUBMIT_NAME_MAX + 1]; /* lower-case letters, digits and '-'; starts with a letter */
    int workers, processes, ranks;  /* processes: of each worker */
    int64_t gpus, cpus, mem_mib;    /* of each worker; 0: not said */
    submit_variable *variables;
    size_t variable_count;
    char key[SUBMIT_KEY_TEXT + sizeof SUBMIT_HIDDEN]; /* a new one, or that it is hidden */
    bool wait;                                        /* until the job has ended */
    const submit_values *values;                      /* as given; ends with a row without a name */
} submit_request;

struct submit_platform {
    const char *name;             /* after --to */
    const char *suffix;           /* of its file: ".yaml" */
    const char *program;          /* takes the file; NULL: platform->send looks for itself */
    const char *install;          /* what to do where the program is missing */
    const submit_option *options; /* ends with a row without a name */
    /* False: what does not fit was said, in one line. */
    bool (*write)(const submit_request *r, FILE *to);
    /* Hands the file over, and follows the job if it is to be waited for. Returns the exit code:
     * EXIT_USAGE if the job was refused. */
    int (*send)(const submit_request *r, const char *file);
};

extern const submit_platform *const submit_platforms[]; /* ends with NULL */
extern const submit_platform submit_slurm, submit_kubernetes, submit_azureml;

/* The last value given for an option, NULL if none; and all of them. */
const char *submit_value(const submit_request *r, const char *option);
const char *const *submit_values_of(const submit_request *r, const char *option);

/* One line on stderr: "rueda submit: …", or "job.yaml:3:5: …". Both return false. */
bool submit_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool submit_complain_at(const submit_request *r, job_place at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A job that is not waited for: its number or name on stdout, for scripts. Returns the exit code. */
int submit_tell(const char *id);

/* Whether a value is made of letters, digits and ". _ - : / = , + @ %" alone; complains otherwise. */
bool submit_is_plain(const char *option, const char *value);

/* The variables by which whoever starts the processes tells them who they are. */
typedef struct submit_starter {
    const char *rank, *size; /* NULL: RUEDA_RANK and the others are there */
    const char *local_rank;
    const char *local_size, *cross_rank; /* "$NAME", or what the shell makes a number of */
    bool shares_gpus;                    /* it lets each process see its own GPUs */
} submit_starter;

/* Fills in a template of the shell; the text lies in memory of the job. Lines of the template are joined by
 * a space if `joined`. */
const char *submit_shell(const submit_request *r, const char *template, const sheet_field *fields,
                         bool joined);

/* Line `index` for sh -c, which finds RUEDA_RANK, RUEDA_SIZE and so on in its environment as under `rueda
 * run`. Where the GPUs of a worker can be shared out evenly, each process sees its own. */
const char *submit_line(const submit_request *r, size_t index, const submit_starter *by);

/* What makes of a text what a platform takes for it; NULL: nothing is to be changed. */
typedef const char *submit_change(const submit_request *r, const char *text);

/* All lines, and the names and values of all variables, for fields of several values. */
const char *const *submit_lines(const submit_request *r, const submit_starter *by,
                                submit_change *change);
const char *const *submit_names(const submit_request *r);
const char *const *submit_texts(const submit_request *r, submit_change *change);

/* Open MPI's mpirun. */
extern const submit_starter submit_mpirun;

/* "12" in memory of the job; NULL for a number below 1. */
const char *submit_number(const submit_request *r, int64_t number);

#endif
