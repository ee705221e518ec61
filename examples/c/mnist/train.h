/* train.h: the training loop. */
#ifndef MNIST_TRAIN_H
#define MNIST_TRAIN_H

#include "common/log.h"
#include "common/progress.h"
#include "idx.h"
#include "settings.h"

/* Trains and fills the summary, the same on every rank. Only rank 0 logs and shows. On failure false,
 * and `error` has a sentence. */
bool train(const settings *o, const dataset *training, const dataset *test, log_file *log,
           progress *show, run_summary *summary, char error[IDX_ERROR_BYTES]);

#endif
