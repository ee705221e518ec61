/* submit.c: what platforms share: their table, the options' values, complaints. */
#include "cli/submit/submit.h"

#include "cli/submit/templates.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const submit_platform *const submit_platforms[] = {&submit_slurm, &submit_kubernetes,
                                                   &submit_azureml, NULL};

const char *const *submit_values_of(const submit_request *r, const char *option)
{
    static const char *const none[] = {NULL};
    for (const submit_values *v = r->values; v->name != NULL; v++) {
        if (strcmp(v->name, option) == 0)
            return v->values;
    }
    return none;
}

const char *submit_value(const submit_request *r, const char *option)
{
    const char *const *values = submit_values_of(r, option);
    while (values[0] != NULL && values[1] != NULL)
        values++;
    return values[0];
}

bool submit_complain(const char *format, ...)
{
    va_list args;
    fputs("rueda submit: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return false;
}

bool submit_complain_at(const submit_request *r, job_place at, const char *format, ...)
{
    va_list args;
    fprintf(stderr, "%s:%d:%d: ", r->path, at.line, at.column);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return false;
}

int submit_tell(const char *id)
{
    return puts(id) >= 0 && fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

bool submit_is_plain(const char *option, const char *value)
{
    const char *c = value;
    while (isalnum((unsigned char)*c) || (*c != '\0' && strchr("._-:/=,+@%", *c) != NULL))
        c++;
    if (*c == '\0' && c != value)
        return true;
    return submit_complain("%s '%s' is not valid: letters, digits and ._-:/=,+@%% only", option,
                           value);
}

const submit_starter submit_mpirun = {.rank = "OMPI_COMM_WORLD_RANK",
                                      .size = "OMPI_COMM_WORLD_SIZE",
                                      .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
                                      .local_size = "$OMPI_COMM_WORLD_LOCAL_SIZE",
                                      .cross_rank = "$((RUEDA_RANK / RUEDA_LOCAL_SIZE))"};

const char *submit_shell(const submit_request *r, const char *template, const sheet_field *fields,
                         bool joined)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    const bool filled = to != NULL && sheet_write_shell(to, template, fields);
    if (to == NULL || fclose(to) != 0 || !filled) {
        submit_complain("cannot fill in a template");
        exit(EXIT_FAILURE);
    }
    for (char *c = text; joined && (c = strchr(c, '\n')) != NULL;)
        *c = ' ';
    const char *kept = job_tree_text(&r->file->tree, "%s", text);
    free(text);
    return kept;
}

/* Each process of a worker sees its share of the GPUs. */
static const char *share_gpus(const submit_request *r, const char *local_rank)
{
    const int64_t share = r->gpus / r->processes;
    if (r->processes == 1 || r->gpus == 0 || r->gpus % r->processes != 0)
        return "";
    const sheet_field fields[] = {
        {.name = "only", .value = share == 1 ? local_rank : NULL},
        {.name = "local_rank", .value = local_rank},
        {.name = "share", .value = submit_number(r, share > 1 ? share : 0)},
        {.name = NULL}};
    return submit_shell(r, template_gpus_sh, fields, true);
}

/* Exported: a script reads them as under `rueda run`, whether or not the line speaks of them. Workers are
 * alike. */
static const char *name_ranks(const submit_request *r, const submit_starter *by)
{
    const sheet_field fields[] = {{.name = "rank", .value = by->rank},
                                  {.name = "size", .value = by->size},
                                  {.name = "local_rank", .value = by->local_rank},
                                  {.name = "local_size", .value = by->local_size},
                                  {.name = "cross_rank", .value = by->cross_rank},
                                  {.name = NULL}};
    return by->rank == NULL ? "" : submit_shell(r, template_ranks_sh, fields, true);
}

const char *submit_line(const submit_request *r, size_t index, const submit_starter *by)
{
    const char *line = r->file->run[index].text;
    size_t length = strlen(line);
    while (length > 0 && line[length - 1] == '\n') /* of a block in the job file */
        length--;
    return job_tree_text(&r->file->tree, "%s%s%.*s", name_ranks(r, by),
                         by->shares_gpus ? "" : share_gpus(r, by->local_rank), (int)length, line);
}

static const char **new_list(const submit_request *r, size_t count)
{
    return job_tree_take(&r->file->tree, (count + 1) * sizeof(char *));
}

const char *const *submit_lines(const submit_request *r, const submit_starter *by,
                                submit_change *change)
{
    const char **list = new_list(r, r->file->run_count);
    for (size_t i = 0; i < r->file->run_count; i++) {
        const char *line = submit_line(r, i, by);
        list[i] = change == NULL ? line : change(r, line);
    }
    return list;
}

const char *const *submit_names(const submit_request *r)
{
    const char **list = new_list(r, r->variable_count);
    for (size_t i = 0; i < r->variable_count; i++)
        list[i] = r->variables[i].name;
    return list;
}

const char *const *submit_texts(const submit_request *r, submit_change *change)
{
    const char **list = new_list(r, r->variable_count);
    for (size_t i = 0; i < r->variable_count; i++)
        list[i] = change == NULL ? r->variables[i].value : change(r, r->variables[i].value);
    return list;
}

const char *submit_number(const submit_request *r, int64_t number)
{
    return number < 1 ? NULL : job_tree_text(&r->file->tree, "%lld", (long long)number);
}
