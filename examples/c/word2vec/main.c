/* main.c: reads the text, trains, shows what the vectors know. */
#include "common/job.h"
#include "train.h"
#include "words.h"

#include <errno.h>
#include <string.h>

static const char about[] =
    "Trains vectors of words by skip-gram with negative sampling. Start it alone, or on N ranks:\n"
    "rueda run -np N word2vec --corpus FILE [options]";

static run_summary summary;

/* What the run leaves behind: files, and what rank 0 prints. */
static bool tell(const trainer *t, log_file *log, const progress *show, char *error)
{
    words w;
    const settings *o = t->o;
    if (t->rank != 0)
        return true;
    progress_summary(show, &summary);
    if (show->mode != PROGRESS_NONE && summary.outcome != RUN_DIVERGED &&
        words_init(&w, &t->text->words, t->parameters, (int)o->size)) {
        words_print(&w);
        words_free(&w);
    }
    if (!log_close(log, &summary)) {
        snprintf(error, CORPUS_ERROR_BYTES, "%s could not be written", o->run.log);
        return false;
    }
    if (o->vectors != NULL &&
        !words_save(&t->text->words, t->parameters, (int)o->size, o->vectors)) {
        snprintf(error, CORPUS_ERROR_BYTES, "%s could not be written", o->vectors);
        return false;
    }
    return o->run.save == NULL ||
           job_save(o->run.save, t->parameters, TABLES * t->table, error, CORPUS_ERROR_BYTES);
}

static bool train_on(const settings *o, const corpus *text, char *error)
{
    trainer t;
    log_file log = {0};
    progress show = {.mode = PROGRESS_NONE};
    char why[CORPUS_ERROR_BYTES + 16];
    bool good = trainer_init(&t, o, text);
    if (!good)
        snprintf(error, CORPUS_ERROR_BYTES, "out of memory for %d workers", t.local);
    else if (t.steps == 0)
        snprintf(error, CORPUS_ERROR_BYTES, "%d lines are too few for %d workers with %d in a step",
                 text->lines, t.workers, t.lines);
    good = good && t.steps > 0;
    if (good && t.rank == 0) {
        good = log_open(&log, &t.about, o->run.log, o->run.json ? stdout : NULL);
        if (!good)
            snprintf(error, CORPUS_ERROR_BYTES, "%s: %s", o->run.log, strerror(errno));
    }
    snprintf(why, sizeof why, "word2vec: %s", error);
    good = job_agrees(good, why);
    error[0] = '\0'; /* said */
    good = good && train(&t, &log, &show, &summary, error) && tell(&t, &log, &show, error);
    trainer_free(&t);
    return good;
}

static int run(void *options)
{
    const settings *o = options;
    corpus text = {0};
    char error[CORPUS_ERROR_BYTES] = "", why[CORPUS_ERROR_BYTES + 16];
    const bool found = corpus_read(o->corpus, (int)o->least, (int)o->limit, &text, error);
    snprintf(why, sizeof why, "word2vec: %s", error);
    const bool good = job_agrees(found, why) && train_on(o, &text, error);
    if (found && !good && error[0] != '\0')
        fprintf(stderr, "word2vec: %s\n", error);
    corpus_free(&text);
    return good ? 0 : 1;
}

int main(int argc, char **argv)
{
    settings o;
    option table[MAX_OPTIONS];
    const program word2vec = {"word2vec", about, table, settings_table(&o, table), run, &o};
    return job_main(&word2vec, argc, argv);
}
