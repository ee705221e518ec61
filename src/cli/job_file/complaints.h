/* complaints.h: what is wrong with a job file, each with its place. */
#ifndef RUEDA_CLI_JOB_FILE_COMPLAINTS_H
#define RUEDA_CLI_JOB_FILE_COMPLAINTS_H

#include <stdbool.h>
#include <stdio.h>

#define JOB_COMPLAINTS_MAX 20      /* more are counted, not kept */
#define JOB_COMPLAINT_TEXT_MAX 320 /* bytes of a sentence, with the terminating zero */

/* Both count from 1, the column in characters; line 0: nowhere in particular. */
typedef struct job_place {
    int line, column;
} job_place;

typedef struct job_complaint {
    job_place at;
    char text[JOB_COMPLAINT_TEXT_MAX];
} job_complaint;

typedef struct job_complaints {
    int count;   /* in the list, ordered by place */
    int dropped; /* beyond the list */
    job_complaint list[JOB_COMPLAINTS_MAX];
} job_complaints;

/* Adds one; control characters of what the file says are shown as '?'. */
void job_complain(job_complaints *all, job_place at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* One line each: "file:line:column: sentence". */
void job_complaints_print(const job_complaints *all, const char *file, FILE *to);

#endif
