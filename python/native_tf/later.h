/* later.h: kernels that end on another thread, so that no thread of TensorFlow's executor blocks. */
#ifndef RUEDA_NATIVE_TF_LATER_H
#define RUEDA_NATIVE_TF_LATER_H

#include "tf.h"

/* Whether this TensorFlow can; otherwise kernels wait where they are called. */
bool later_possible(void);

/* Runs `work` on a thread that is free, however many others block, and then tells TensorFlow that the
 * kernel is done. Without memory for it, it does so at once. */
void later(void (*work)(TF_OpKernelContext *), TF_OpKernelContext *context,
           TF_AsyncOpKernelDoneCallback *done);

#endif
