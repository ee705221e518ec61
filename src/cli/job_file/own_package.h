/* own_package.h: our own Python package in the environments of job files.
 *
 * It is linked from where this program was installed with it, so every job has the package of its
 * launcher, also in an environment that an older one has made. */
#ifndef RUEDA_CLI_JOB_FILE_OWN_PACKAGE_H
#define RUEDA_CLI_JOB_FILE_OWN_PACKAGE_H

#include <stdbool.h>

/* Puts the package into the environment in `directory`, unless somebody has installed one there. Does
 * nothing where this program was installed without it. False: errno says why it cannot. */
bool own_package_link(const char *directory);

#endif
