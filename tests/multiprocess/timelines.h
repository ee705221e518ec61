/* timelines.h: a folder for the files of a test, timelines in it, and operations to be seen in them. */
#ifndef RUEDA_TESTS_TIMELINES_H
#define RUEDA_TESTS_TIMELINES_H

#include "harness.h"
#include "observe/timeline_check.h"

#include <stdint.h>

#define TIMELINES_ROOM 160

/* Of the current test: the folder, a timeline in it, and the setting that asks for that. */
extern char timelines_folder[TIMELINES_ROOM];
extern char timelines_file[TIMELINES_ROOM];
extern char timelines_setting[TIMELINES_ROOM + 32];

int timelines_make_folder(void **state);
int timelines_remove_folder(void **state);
#define IN_FOLDER(test)                                                                            \
    cmocka_unit_test_setup_teardown(test, timelines_make_folder, timelines_remove_folder)

/* timelines_file with something appended; static. */
const char *timelines_beside(const char *suffix);
bool is_there(const char *path);

/* What a job has left must be whole, paired, and nothing else. */
check_timeline timelines_read(void);
/* Events of a tensor on a rank. */
size_t timelines_count(const check_timeline *t, unsigned pid, int tid, char ph, const char *name);

/* ---- inside a rank ---- */

rueda_status reduce(const char *name, rueda_op op); /* of float32 [2, 3] */
rueda_request *submit(const char *name, float *data, int64_t count);
void nap_ms(unsigned ms);

/* Operations until rank 0 says that it is over; not so many that the file takes long to read. */
void reduce_until_over(void);
void say_over(void);

#endif
