/* syntax.h: says in plain words why a text is no YAML. */
#ifndef RUEDA_CLI_JOB_FILE_SYNTAX_H
#define RUEDA_CLI_JOB_FILE_SYNTAX_H

#include "cli/job_file/complaints.h"

#include <stddef.h>

struct yaml_parser_s;

/* The parser has failed over this text: adds the one complaint about it. */
void job_syntax_explain(const struct yaml_parser_s *parser, const char *text, size_t bytes,
                        job_complaints *complaints);

#endif
