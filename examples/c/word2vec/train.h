/* train.h: the training loop. */
#ifndef WORD2VEC_TRAIN_H
#define WORD2VEC_TRAIN_H

#include "common/log.h"
#include "common/progress.h"
#include "trainer.h"

/* Trains, and leaves the result in t->parameters and the summary, the same on every rank. Only rank 0
 * tests, logs and shows. False: `error` has a sentence. */
bool train(trainer *t, log_file *log, progress *show, run_summary *summary,
           char error[CORPUS_ERROR_BYTES]);

#endif
