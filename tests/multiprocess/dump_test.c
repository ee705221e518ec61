/* dump_test.c: the job's key is nowhere in a rank where a core dump would show it.
 * ctest: timeout=120 */
#include "base/dump_testing.h"
#include "harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#define KEY_BYTES 32
#define RANKS 3

static volatile int step = 0x11; /* or the compiler would put the key into the program */

/* Byte i of the key, which must not stand here as it is. */
static uint8_t masked_byte(int i)
{
    return (uint8_t)((step * (i + 1) + 3) & 0xff) ^ DUMP_MASK;
}

static void mask_key(uint8_t masked[KEY_BYTES])
{
    for (int i = 0; i < KEY_BYTES; i++)
        masked[i] = masked_byte(i);
}

static void mask_digits(uint8_t masked[2 * KEY_BYTES])
{
    for (int i = 0; i < 2 * KEY_BYTES; i++) {
        const int byte = masked_byte(i / 2) ^ DUMP_MASK;
        masked[i] =
            (uint8_t) "0123456789abcdef"[i % 2 == 0 ? byte >> 4 : byte & 15] ^ (uint8_t)DUMP_MASK;
    }
}

/* By a process of its own: nothing of it is inherited. */
static void write_key(const char *path)
{
    const pid_t child = fork();
    if (child == 0) {
        uint8_t digits[2 * KEY_BYTES];
        mask_digits(digits);
        for (size_t i = 0; i < sizeof digits; i++)
            digits[i] ^= DUMP_MASK;
        const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        _exit(write(fd, digits, sizeof digits) == sizeof digits ? 0 : 1);
    }
    int ended = 1;
    CHECK(waitpid(child, &ended, 0) == child && ended == 0);
}

static void work_and_look(int rank, int size, const void *argument)
{
    const char *path = argument;
    uint8_t key[KEY_BYTES], digits[2 * KEY_BYTES];
    (void)rank, (void)size;
    setenv("RUEDA_KEY_FILE", path, 1);
    mask_key(key);
    mask_digits(digits);
    for (int life = 0; life < 2; life++) {
        CHECK_OK(rueda_init(NULL));
        for (int i = 0; i < 3; i++) {
            float data[1000] = {0};
            const int64_t count = 1000;
            const rueda_tensor t = RUEDA_TENSOR("data", data, RUEDA_F32, 1, &count);
            CHECK_OK(rueda_allreduce(&t, &RUEDA_OPTIONS(RUEDA_SUM), NULL));
        }
        doing("looking for the key");
        CHECK(!dump_has(key, sizeof key));
        doing("looking for its digits");
        CHECK(!dump_has(digits, sizeof digits));
        meet();
        CHECK_OK(rueda_shutdown());
        CHECK(!dump_has(key, sizeof key));
    }
}

static void no_dump_has_the_key(void **state)
{
    (void)state;
    static const char *const tcp[] = {"RUEDA_TRANSPORT=tcp", NULL};
    static const char *const encrypted[] = {"RUEDA_TRANSPORT=tcp", "RUEDA_ENCRYPT=1", NULL};
    const char *const *const ways[] = {NULL, tcp, encrypted};
    char path[80];
    snprintf(path, sizeof path, "/tmp/rueda-dump-%d", (int)getpid());
    write_key(path);
    for (int i = 0; i < 3; i++)
        run_job(&(job){
            .ranks = RANKS, .body = work_and_look, .argument = path, .environment = ways[i]});
    unlink(path);
}

/* So that the test above cannot pass because nothing is ever found. */
static void what_is_not_hidden_is_found(void **state)
{
    (void)state;
    uint8_t key[KEY_BYTES];
    mask_key(key);
    assert_false(dump_has(key, sizeof key));
    uint8_t *open_key = malloc(sizeof key);
    for (int i = 0; i < KEY_BYTES; i++)
        open_key[i] = masked_byte(i) ^ DUMP_MASK;
    assert_true(dump_has(key, sizeof key));
    explicit_bzero(open_key, sizeof key);
    free(open_key);
}

int main(void)
{
    dump_begin();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_dump_has_the_key),
        cmocka_unit_test(what_is_not_hidden_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
