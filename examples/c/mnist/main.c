/* main.c: reads the images, trains, tells how it went. */
#include "common/job.h"
#include "gemm.h"
#include "network.h"
#include "train.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char about[] =
    "Trains a network on MNIST. Start it alone, or on N ranks: rueda run -np N mnist [options]";

static bool load(const settings *o, dataset *training, dataset *test)
{
    char error[IDX_ERROR_BYTES + 8] = "mnist: ", found[MAX_PATH_BYTES];
    char *sentence = error + strlen(error);
    const char *data = o->data;
    if (data == NULL) {
        find_data(found);
        data = found;
    }
    return job_agrees(dataset_load(data, "train", (int)o->limit, training, sentence) &&
                          dataset_load(data, "t10k", (int)o->limit, test, sentence),
                      error);
}

static bool tell(const settings *o, log_file *log, const progress *show, const run_summary *summary)
{
    if (rueda_rank() != 0)
        return true;
    progress_summary(show, summary);
    if (log_close(log, summary))
        return true;
    fprintf(stderr, "mnist: %s could not be written\n", o->run.log);
    return false;
}

static int run(void *options)
{
    static run_summary summary;
    const settings *o = options;
    dataset training = {0}, test = {0};
    char error[IDX_ERROR_BYTES] = "";
    progress show = {.mode = PROGRESS_NONE};
    log_file log = {0};
    bool good = rueda_rank() > 0 ||
                log_open(&log, &network_subject, o->run.log, o->run.json ? stdout : NULL);
    if (!good)
        snprintf(error, sizeof error, "mnist: %s: %s", o->run.log, strerror(errno));
    good = job_agrees(good, error) && load(o, &training, &test);
    if (good && !train(o, &training, &test, &log, &show, &summary, error)) {
        fprintf(stderr, "mnist: %s\n", error);
        good = false;
    }
    good = good && tell(o, &log, &show, &summary);
    dataset_free(&training);
    dataset_free(&test);
    return good ? 0 : 1;
}

int main(int argc, char **argv)
{
    settings o;
    option table[MAX_OPTIONS];
    gemm_setup(argv);
    const program mnist = {"mnist", about, table, settings_table(&o, table), run, &o};
    return job_main(&mnist, argc, argv);
}
