/* submit.c: what platforms share: their table, the options' values, complaints. */
#include "cli/submit/submit.h"

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
                                      .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK"};

/* Each process of a worker sees its share of the GPUs. */
static const char *share_gpus(const submit_request *r, const char *local_rank)
{
    const long long share = r->gpus / r->processes;
    if (r->processes == 1 || r->gpus == 0 || r->gpus % r->processes != 0)
        return "";
    if (share == 1)
        return job_tree_text(&r->file->tree, "export CUDA_VISIBLE_DEVICES=$%s && ", local_rank);
    return job_tree_text(&r->file->tree,
                         "export CUDA_VISIBLE_DEVICES=$(seq -s, $((%s * %lld)) "
                         "$((%s * %lld + %lld))) && ",
                         local_rank, share, local_rank, share, share - 1);
}

/* Not exported: a program that found them in its environment would take us for its launcher. */
static const char *name_ranks(const submit_request *r, const submit_starter *by, const char *line)
{
    if (by->rank == NULL || strstr(line, "RUEDA_") == NULL)
        return "";
    return job_tree_text(&r->file->tree, "RUEDA_RANK=$%s RUEDA_SIZE=$%s RUEDA_LOCAL_RANK=$%s && ",
                         by->rank, by->size, by->local_rank);
}

const char *submit_line(const submit_request *r, size_t index, const submit_starter *by)
{
    const char *line = r->file->run[index].text;
    size_t length = strlen(line);
    while (length > 0 && line[length - 1] == '\n') /* of a block in the job file */
        length--;
    return job_tree_text(&r->file->tree, "%s%s%.*s", name_ranks(r, by, line),
                         by->shares_gpus ? "" : share_gpus(r, by->local_rank), (int)length, line);
}

const char *submit_number(const submit_request *r, int64_t number)
{
    return number < 1 ? NULL : job_tree_text(&r->file->tree, "%lld", (long long)number);
}
