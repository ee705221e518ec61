/* settings.c: see settings.h. */
#include "settings.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

rueda_op settings_op(const settings *s)
{
    static const rueda_op ops[] = {RUEDA_ADASUM, RUEDA_AVERAGE, RUEDA_SUM};
    return ops[s->op_word];
}

size_t settings_table(settings *s, option table[MAX_OPTIONS])
{
    static const char *const ops[] = {"adasum", "average", "sum", NULL};
    const option own[] = {
        {"--op", OPTION_WORD, &s->op_word, "OP",
         "adasum, average or sum: how the workers' steps are combined", 0, 0, ops},
        {"--batch", OPTION_NUMBER, &s->batch, "N", "images in a step, for each worker", 1,
         MAX_BATCH, NULL},
        {"--data", OPTION_FILE, &s->data, "FOLDER",
         "with the idx files; otherwise data/mnist is looked for upward", 0, 0, NULL},
        {"--limit", OPTION_NUMBER, &s->limit, "N",
         "only the first N images for training, and for the test; 0: all", 0, INT_MAX, NULL}};
    const size_t count = sizeof own / sizeof own[0];
    *s =
        (settings){.run = {.epochs = 2, .lr = 0.02, .workers_per_rank = 1, .seed = 1}, .batch = 32};
    memcpy(table, own, sizeof own);
    options_of_run(&s->run, table + count);
    return count + RUN_OPTIONS;
}

void find_data(char data[MAX_PATH_BYTES])
{
    static const char below[] = "/data/mnist";
    char path[MAX_PATH_BYTES];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - sizeof below);
    if (length > 0) {
        path[length] = '\0';
        for (char *slash = strrchr(path, '/'); slash != NULL; slash = strrchr(path, '/')) {
            strcpy(slash, below);
            if (access(path, R_OK) == 0) {
                strcpy(data, path);
                return;
            }
            *slash = '\0';
        }
    }
    strcpy(data, below + 1);
}
