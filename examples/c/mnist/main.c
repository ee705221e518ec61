/* main.c: joins the job, reads options and images, trains, tells how it went. */
#include "gemm.h"
#include "train.h"

#include <errno.h>
#include <string.h>

/* True if all ranks say so. Otherwise the first of those that do not tells why: the launcher ends a
 * job with the first rank that fails, so nobody leaves before that. */
static bool all_agree(bool good, const char *why)
{
    int32_t first = good ? rueda_size() : rueda_rank();
    rueda_tensor tensor = RUEDA_TENSOR("agreement", &first, RUEDA_I32, 0, NULL);
    rueda_options min = RUEDA_OPTIONS(RUEDA_MIN);
    if (rueda_allreduce(&tensor, &min, NULL) != RUEDA_OK) {
        fprintf(stderr, "mnist: %s\n", rueda_error());
        return false;
    }
    if (first == rueda_rank())
        fprintf(stderr, "%s\n", why);
    rueda_barrier(RUEDA_GLOBAL_SET, NULL);
    return first == rueda_size();
}

static bool load(const options *o, dataset *training, dataset *test)
{
    char error[IDX_ERROR_BYTES + 8] = "mnist: ";
    char *sentence = error + strlen(error);
    return all_agree(dataset_load(o->data, "train", (int)o->limit, training, sentence) &&
                         dataset_load(o->data, "t10k", (int)o->limit, test, sentence),
                     error);
}

static bool tell(const options *o, log_file *log, const progress *show, const run_summary *summary)
{
    if (rueda_rank() != 0)
        return true;
    progress_summary(show, summary);
    if (log_close(log, summary))
        return true;
    fprintf(stderr, "mnist: %s could not be written\n", o->log);
    return false;
}

static int run(options *o)
{
    static run_summary summary;
    dataset training = {0}, test = {0};
    char error[IDX_ERROR_BYTES] = "";
    progress show = {.mode = PROGRESS_NONE};
    log_file log = {0};
    bool good = rueda_rank() > 0 || log_open(&log, o->log, o->json ? stdout : NULL);
    if (!good)
        snprintf(error, sizeof error, "mnist: %s: %s", o->log, strerror(errno));
    if (rueda_rank() > 0)
        o->progress = PROGRESS_NONE;
    good = all_agree(good, error) && load(o, &training, &test);
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
    static options o;
    char error[OPTIONS_ERROR_BYTES] = "";
    gemm_setup(argv);
    if (rueda_init(NULL) != RUEDA_OK) {
        fprintf(stderr, "mnist: %s\n", rueda_error());
        return 1;
    }
    int code = 0;
    const options_result parsed = options_parse(&o, argc, argv, error);
    if (parsed == OPTIONS_HELPED && rueda_rank() == 0)
        fputs(options_help, stdout);
    if (!all_agree(parsed != OPTIONS_BAD, error))
        code = EXIT_USAGE;
    else if (parsed == OPTIONS_GO)
        code = run(&o);
    rueda_shutdown();
    return code;
}
