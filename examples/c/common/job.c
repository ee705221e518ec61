/* job.c: see job.h. */
#include "common/job.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

bool job_agrees(bool good, const char *why)
{
    int32_t first = good ? rueda_size() : rueda_rank();
    rueda_tensor tensor = RUEDA_TENSOR("agreement", &first, RUEDA_I32, 0, NULL);
    rueda_options min = RUEDA_OPTIONS(RUEDA_MIN);
    if (rueda_allreduce(&tensor, &min, NULL) != RUEDA_OK) {
        fprintf(stderr, "%s\n", rueda_error());
        return false;
    }
    if (first == rueda_rank())
        fprintf(stderr, "%s\n", why);
    rueda_barrier(RUEDA_GLOBAL_SET, NULL);
    return first == rueda_size();
}

int job_main(const program *p, int argc, char **argv)
{
    char error[OPTIONS_ERROR_BYTES] = "";
    if (rueda_init(NULL) != RUEDA_OK) {
        fprintf(stderr, "%s: %s\n", p->name, rueda_error());
        return 1;
    }
    int code = 0;
    const options_result parsed =
        options_parse(p->name, p->table, p->option_count, argc, argv, error);
    if (parsed == OPTIONS_HELPED && rueda_rank() == 0)
        options_help(p->about, p->table, p->option_count);
    if (!job_agrees(parsed != OPTIONS_BAD, error))
        code = EXIT_USAGE;
    else if (parsed == OPTIONS_GO)
        code = p->run(p->options);
    rueda_shutdown();
    return code;
}

bool job_save(const char *path, const float *values, size_t count, char *error, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    bool good = file != NULL && fwrite(values, sizeof *values, count, file) == count;
    if (file != NULL)
        good = fclose(file) == 0 && good;
    if (!good)
        snprintf(error, bytes, "%s: %s", path, strerror(errno));
    return good;
}

double job_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
