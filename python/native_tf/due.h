/* due.h: whether a part of a graph is to run in this step. */
#ifndef RUEDA_NATIVE_TF_DUE_H
#define RUEDA_NATIVE_TF_DUE_H

#include "tf.h"

/* For Python, by ctypes: from now on the part of this key runs, or not. */
void rueda_tf_set_due(int64_t key, int due);

/* The kernel, for registration. */
tf_create_function create_due;
tf_delete_function delete_due;
tf_compute_function compute_due;

#endif
