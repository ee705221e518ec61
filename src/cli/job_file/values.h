/* values.h: single values of a job file: taken when they are what they should be, complained about
 * otherwise. */
#ifndef RUEDA_CLI_JOB_FILE_VALUES_H
#define RUEDA_CLI_JOB_FILE_VALUES_H

#include "cli/job_file/job_file.h"

/* No value, or null. */
bool job_is_absent(const job_node *value);
/* What a value is, for "must be …, not …". */
const char *job_kind_name(const job_node *value);

/* True: *target was set. A target that is set already is complained about. */
bool job_take_text(job_complaints *complaints, const char *name, const job_node *value,
                   job_text *target);
bool job_take_number(job_complaints *complaints, const char *name, const job_node *value,
                     job_number *target, int64_t min, int64_t max);
/* Reads "name", "name:slots" or "[address]:slots". */
bool job_take_host(job_complaints *complaints, job_tree *tree, const job_node *value,
                   job_host *target);
/* Memory for the items of a list, at most `max`; NULL: complained about. */
void *job_take_list(job_complaints *complaints, job_tree *tree, const char *name,
                    const job_node *value, size_t max, size_t item_bytes);

bool job_is_version(const char *text);  /* of a package */
bool job_is_python(const char *text);   /* a version, or an absolute path */
bool job_is_host(const char *text);     /* a name or address, with a user before it or not */
bool job_is_variable(const char *text); /* of the environment */

#endif
