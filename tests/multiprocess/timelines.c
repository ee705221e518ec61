/* timelines.c: see timelines.h. */
#include "timelines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

char timelines_folder[TIMELINES_ROOM];
char timelines_file[TIMELINES_ROOM];
char timelines_setting[TIMELINES_ROOM + 32];
static _Atomic bool over;

int timelines_make_folder(void **state)
{
    (void)state;
    snprintf(timelines_folder, sizeof timelines_folder, "/tmp/rueda-observe-XXXXXX");
    if (mkdtemp(timelines_folder) == NULL)
        return -1;
    snprintf(timelines_file, sizeof timelines_file, "%.100s/t.json", timelines_folder);
    snprintf(timelines_setting, sizeof timelines_setting, "RUEDA_TIMELINE=%s", timelines_file);
    return 0;
}

int timelines_remove_folder(void **state)
{
    (void)state;
    char command[TIMELINES_ROOM + 16];
    snprintf(command, sizeof command, "rm -r %s", timelines_folder);
    return system(command);
}

const char *timelines_beside(const char *suffix)
{
    static char path[TIMELINES_ROOM + 16];
    snprintf(path, sizeof path, "%s%s", timelines_file, suffix);
    return path;
}

bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

check_timeline timelines_read(void)
{
    check_timeline t;
    assert_true(check_parse(&t, check_read(timelines_file)));
    const char *wrong = check_nesting(&t, false);
    if (wrong != NULL)
        fail_msg("%s", wrong);
    assert_false(is_there(timelines_beside(".part")));
    return t;
}

size_t timelines_count(const check_timeline *t, unsigned pid, int tid, char ph, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < t->count; i++) {
        const check_event *e = &t->events[i];
        count += e->pid == pid && e->tid == tid && e->ph == ph && strcmp(e->name, name) == 0;
    }
    return count;
}

rueda_status reduce(const char *name, rueda_op op)
{
    float values[6] = {1, 2, 3, 4, 5, 6};
    const int64_t shape[] = {2, 3};
    const rueda_tensor t = RUEDA_TENSOR(name, values, RUEDA_F32, 2, shape);
    return rueda_allreduce(&t, &RUEDA_OPTIONS(op), NULL);
}

rueda_request *submit(const char *name, float *data, int64_t count)
{
    const rueda_tensor t = RUEDA_TENSOR(name, data, RUEDA_F32, 1, &count);
    rueda_request *request;
    CHECK_OK(rueda_allreduce(&t, &RUEDA_OPTIONS(RUEDA_SUM), &request));
    return request;
}

void nap_ms(unsigned ms)
{
    nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000L}, NULL);
}

void reduce_until_over(void)
{
    uint8_t more = 1;
    for (unsigned round = 0; more != 0; round++) {
        for (int i = 0; i < 10; i++)
            CHECK_OK(reduce("busy", RUEDA_SUM));
        nap_ms(5 +
               round / 2); /* where all is slow, so that reading the file does not get slower yet */
        more = !atomic_load(&over);
        const int64_t shape[] = {1};
        const rueda_tensor t = RUEDA_TENSOR("more", &more, RUEDA_U8, 1, shape);
        CHECK_OK(rueda_broadcast(&t, NULL, NULL));
    }
}

void say_over(void)
{
    atomic_store(&over, true);
}
