/* status.h: how a failure is reported inside the library.
 *
 * A function that fails says why once, where it is known: `return status_fail(CODE, "…", …)`. The
 * sentence is kept for the calling thread until its next failure and is what rueda_error() shows.
 */
#ifndef RUEDA_BASE_STATUS_H
#define RUEDA_BASE_STATUS_H

#include "base/assert.h"
#include "rueda.h"

#define STATUS_TEXT_MAX 512 /* bytes of a sentence, with the terminating zero */

#define STATUS_PRINTF(text, first) __attribute__((format(printf, text, first)))

/* Sets the thread's sentence and returns `code`. */
rueda_status status_fail(rueda_status code, const char *format, ...) STATUS_PRINTF(2, 3);

/* Like status_fail, with ": " and the text of errno appended. */
rueda_status status_fail_errno(rueda_status code, const char *format, ...) STATUS_PRINTF(2, 3);

/* The thread's sentence; "" if none. */
const char *status_text(void);

/* Makes a sentence that was stored with a request the thread's own. */
rueda_status status_restore(rueda_status code, const char *text);

#endif
