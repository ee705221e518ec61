/* boot_test.c: the ways in which ranks find each other without our launcher: the variables of other
 * launchers, an explicit address, a file; with and without a key.
 * ctest: timeout=240 */
#include "harness.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define KEY_TEXT "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

static void set(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void set(const char *name, const char *format, ...)
{
    char text[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    setenv(name, text, 1);
}

/* What the harness says in our own words; the number of the job makes names and ports unique. */
static int forget_ourselves(void)
{
    static const char *const ours[] = {"RUEDA_RANK",       "RUEDA_SIZE", "RUEDA_LOCAL_RANK",
                                       "RUEDA_LOCAL_SIZE", "RUEDA_JOB",  "RUEDA_HOST"};
    unsigned number = 0;
    for (const char *c = getenv("RUEDA_JOB"); *c != '\0'; c++)
        number = number * 31 + (unsigned char)*c;
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        unsetenv(ours[i]);
    return (int)(number * 977 % 20000);
}

/* All ranks are there, and what they compute is right. */
static void work(int rank, int size)
{
    CHECK_OK(rueda_init(NULL));
    CHECK_EQUAL(rueda_rank(), rank);
    CHECK_EQUAL(rueda_size(), size);
    for (int i = 0; i < 3; i++) {
        int64_t value = rank + i, shape[] = {1};
        const rueda_tensor tensor = RUEDA_TENSOR("value", &value, RUEDA_I64, 1, shape);
        CHECK_OK(rueda_allreduce(&tensor, &RUEDA_OPTIONS(RUEDA_SUM), NULL));
        CHECK_EQUAL(value, size * (size - 1) / 2 + i * size);
    }
    CHECK_OK(rueda_shutdown());
}

/* ---- Launchers ------------------------------------------------------------------------------- */

static void under_torchrun(int rank, int size, const void *argument)
{
    const bool one_host = *(const bool *)argument;
    const int number = forget_ourselves();
    set("RANK", "%d", rank);
    set("WORLD_SIZE", "%d", size);
    set("LOCAL_RANK", "%d", one_host ? rank : 0);
    set("LOCAL_WORLD_SIZE", "%d", one_host ? size : 1);
    set("MASTER_ADDR", "127.0.0.1");
    set("MASTER_PORT", "%d", 30000 + number);
    set("TORCHELASTIC_RUN_ID", "a run/%d", number);
    if (!one_host)
        set("RUEDA_KEY", KEY_TEXT);
    work(rank, size);
}

static void under_open_mpi(int rank, int size, const void *argument)
{
    const bool one_host = *(const bool *)argument;
    const int number = forget_ourselves();
    set("OMPI_COMM_WORLD_RANK", "%d", rank);
    set("OMPI_COMM_WORLD_SIZE", "%d", size);
    set("OMPI_COMM_WORLD_LOCAL_RANK", "%d", one_host ? rank : 0);
    set("OMPI_COMM_WORLD_LOCAL_SIZE", "%d", one_host ? size : 1);
    set("PMIX_NAMESPACE", "prterun-%d@1", number);
    set("OMPI_MCA_orte_hnp_uri", "%d.0;tcp://127.0.0.1,10.9.9.9:1;tcp6://[::1]:2", number);
    set("RUEDA_INSECURE", "1");
    work(rank, size);
}

static void under_pmi(int rank, int size, const void *argument)
{
    (void)argument;
    forget_ourselves(); /* the job's name is our parent's number */
    set("PMI_RANK", "%d", rank);
    set("PMI_SIZE", "%d", size);
    set("MPI_LOCALRANKID", "%d", rank);
    set("MPI_LOCALNRANKS", "%d", size);
    work(rank, size);
}

static void under_slurm(int rank, int size, const void *argument)
{
    const bool one_host = *(const bool *)argument;
    const int number = forget_ourselves();
    set("SLURM_JOB_ID", "%d", number);
    set("SLURM_STEP_ID", "0");
    set("SLURM_PROCID", "%d", rank);
    set("SLURM_STEP_NUM_TASKS", "%d", size);
    set("SLURM_STEP_NUM_NODES", "%d", one_host ? 1 : 2);
    set("SLURM_LOCALID", "%d", one_host ? rank : rank / 2);
    set("SLURM_STEP_NODELIST", "localhost,other[01-02]");
    set("RUEDA_INSECURE", "1");
    work(rank, size);
}

static void other_launchers_are_understood(void **state)
{
    (void)state;
    const job_body bodies[] = {under_torchrun, under_open_mpi, under_slurm};
    for (int one_host = 0; one_host < 2; one_host++) {
        for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++)
            run_ranks(3, bodies[i], &(bool){one_host != 0});
    }
    run_ranks(3, under_pmi, NULL);
}

/* The batch script of Slurm has its variables, but it is no task of a step. */
static void in_a_batch_script(int rank, int size, const void *argument)
{
    (void)argument;
    forget_ourselves();
    set("SLURM_JOB_ID", "7");
    set("SLURM_PROCID", "0");
    set("SLURM_NTASKS", "8");
    work(rank, size);
}

static void a_batch_script_is_a_job_of_one(void **state)
{
    (void)state;
    run_ranks(1, in_a_batch_script, NULL);
}

static void with_nonsense(int rank, int size, const void *argument)
{
    (void)rank, (void)size, (void)argument;
    forget_ourselves();
    set("OMPI_COMM_WORLD_RANK", "first");
    CHECK_STATUS(rueda_init(NULL), RUEDA_ERR_CONFIG);
    CHECK_SAYS("OMPI_COMM_WORLD_RANK=first");
    set("OMPI_COMM_WORLD_RANK", "3");
    set("OMPI_COMM_WORLD_SIZE", "2");
    CHECK_STATUS(rueda_init(NULL), RUEDA_ERR_CONFIG);
    CHECK_SAYS("rank 3 of 2");
}

static void nonsense_of_a_launcher_is_named(void **state)
{
    (void)state;
    run_ranks(1, with_nonsense, NULL);
}

/* ---- Meeting places -------------------------------------------------------------------------- */

static void meet_at(int rank, int size, const char *place)
{
    set("RUEDA_RANK", "%d", rank);
    set("RUEDA_SIZE", "%d", size);
    set("RUEDA_MEET", "%s", place);
}

/* Rank 0 finds the first ports taken by somebody who never answers. */
static void at_an_address(int rank, int size, const void *argument)
{
    char place[80];
    const int port = 20000 + forget_ourselves() % 9000;
    int taken[2] = {-1, -1};
    for (int i = 0; rank == 0 && i < 2; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_port = htons((uint16_t)(port + i))};
        taken[i] = socket(AF_INET, SOCK_STREAM, 0);
        setsockopt(taken[i], SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
        CHECK(bind(taken[i], (struct sockaddr *)&address, sizeof address) == 0);
        CHECK(listen(taken[i], 8) == 0);
    }
    meet();
    snprintf(place, sizeof place, "%s:%d", (const char *)argument, port);
    meet_at(rank, size, place);
    set("RUEDA_KEY", KEY_TEXT);
    work(rank, size);
    set("RUEDA_ENCRYPT", "1");
    work(rank, size); /* once more, as a new generation */
}

static void ranks_meet_at_an_address(void **state)
{
    (void)state;
    run_ranks(3, at_an_address, "127.0.0.1");
    run_ranks(3, at_an_address, "[::1]");
    run_ranks(2, at_an_address, "localhost");
}

/* With an argument nothing but the file gives the key. */
static void at_a_file(int rank, int size, const void *argument)
{
    char place[100];
    snprintf(place, sizeof place, "file:/tmp/rueda-meet-%s", getenv("RUEDA_JOB"));
    forget_ourselves();
    if (rank == 0) { /* a killed job has left its file behind, with an address where nobody is */
        FILE *stale = fopen(place + strlen("file:"), "w");
        CHECK(stale != NULL && fputs("1 127.0.0.1:1\n", stale) >= 0 && fclose(stale) == 0);
    }
    meet();
    meet_at(rank, size, place);
    if (argument == NULL)
        set("RUEDA_INSECURE", "1");
    for (int i = 0; i < 2; i++)
        work(rank, size);
    CHECK(access(place + strlen("file:"), F_OK) != 0); /* nothing is left behind */
}

static void ranks_meet_by_a_file(void **state)
{
    (void)state;
    run_ranks(3, at_a_file, NULL);
    run_ranks(3, at_a_file, "with the key");
}

/* Whoever may write the file could send us elsewhere, with a key of his own. */
static void at_an_open_file(int rank, int size, const void *argument)
{
    (void)argument;
    char place[100];
    snprintf(place, sizeof place, "file:/tmp/rueda-open-%s", getenv("RUEDA_JOB"));
    forget_ourselves();
    if (rank == 0)
        return;
    FILE *open = fopen(place + strlen("file:"), "w");
    CHECK(open != NULL && fprintf(open, "1 127.0.0.1:1 %064d\n", 1) > 0 && fclose(open) == 0);
    CHECK(chmod(place + strlen("file:"), 0644) == 0);
    meet_at(rank, size, place);
    set("RUEDA_START_TIMEOUT", "1");
    CHECK(rueda_init(NULL) == RUEDA_ERR_TIMEOUT);
    CHECK(strstr(rueda_error(), "others may use it") != NULL);
    unlink(place + strlen("file:"));
}

static void an_open_file_is_not_trusted(void **state)
{
    (void)state;
    run_ranks(2, at_an_open_file, NULL);
}

static void listen_in_a_range(int rank, int size, const void *argument)
{
    (void)argument;
    const int port = 20000 + forget_ourselves() % 9000;
    char place[80];
    snprintf(place, sizeof place, "127.0.0.1:%d", port);
    meet_at(rank, size, place);
    set("RUEDA_INSECURE", "1");
    set("RUEDA_INTERFACE", "lo");
    set("RUEDA_PORTS", "%d-%d", port + 20, port + 40);
    work(rank, size);
    set("RUEDA_PORTS", "many");
    CHECK_STATUS(rueda_init(NULL), RUEDA_ERR_CONFIG);
    CHECK_SAYS("RUEDA_PORTS=many");
}

static void ports_and_interface_can_be_chosen(void **state)
{
    (void)state;
    run_ranks(3, listen_in_a_range, NULL);
}

/* ---- Keys ------------------------------------------------------------------------------------ */

static void without_a_key(int rank, int size, const void *argument)
{
    (void)argument;
    forget_ourselves();
    meet_at(rank, size, "127.0.0.1:21000");
    CHECK_STATUS(rueda_init(NULL), RUEDA_ERR_CONFIG);
    CHECK_SAYS("RUEDA_KEY_FILE");
    CHECK_SAYS("RUEDA_INSECURE=1");
    set("RUEDA_KEY", "secret");
    CHECK_STATUS(rueda_init(NULL), RUEDA_ERR_CONFIG);
    CHECK(strstr(rueda_error(), "secret") == NULL); /* not even a wrong one is shown */
}

static void with_a_key_file(int rank, int size, const void *argument)
{
    (void)argument;
    char path[80], place[80];
    snprintf(path, sizeof path, "/tmp/rueda-key-%s", getenv("RUEDA_JOB"));
    snprintf(place, sizeof place, "127.0.0.1:%d", 20000 + forget_ourselves() % 9000);
    if (rank == 0) {
        FILE *file = fopen(path, "w");
        CHECK(file != NULL && fputs(KEY_TEXT "\n", file) >= 0 && fclose(file) == 0);
        CHECK(chmod(path, 0644) == 0);
    }
    meet();
    meet_at(rank, size, place);
    set("RUEDA_KEY_FILE", "%s", path);
    CHECK_STATUS(rueda_init(NULL), RUEDA_ERR_CONFIG);
    CHECK_SAYS("chmod 600");
    meet();
    if (rank == 0)
        CHECK(chmod(path, 0600) == 0);
    meet();
    work(rank, size);
    meet();
    if (rank == 0)
        unlink(path);
}

static void with_different_keys(int rank, int size, const void *argument)
{
    (void)argument;
    char place[80];
    snprintf(place, sizeof place, "127.0.0.1:%d", 20000 + forget_ourselves() % 9000);
    meet_at(rank, size, place);
    set("RUEDA_START_TIMEOUT", "1");
    set("RUEDA_KEY", "%.63s%d", KEY_TEXT, rank);
    capture_stderr();
    CHECK_STATUS(rueda_init(NULL), RUEDA_ERR_TIMEOUT);
    CHECK_SAYS(rank == 0 ? "for rank 1" : "for rank 0");
    if (rank == 0)
        CHECK(strstr(captured_stderr(), "does not know the job's key") != NULL);
    else
        CHECK_SAYS("turned away");
}

static void who_does_not_have_the_key_stays_outside(void **state)
{
    (void)state;
    run_ranks(2, without_a_key, NULL);
    run_ranks(2, with_a_key_file, NULL);
    run_ranks(2, with_different_keys, NULL);
}

/* A setting that differs is found by all, with the same words. */
static void with_different_settings(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    set("RUEDA_TRANSPORT", "tcp");
    set("RUEDA_FUSION_THRESHOLD", rank == 2 ? "1" : "2");
    CHECK_STATUS(rueda_init(NULL), RUEDA_ERR_CONFIG);
    CHECK_SAYS("RUEDA_FUSION_THRESHOLD differs: rank 0 has '2', rank 2 has '1'");
}

static void settings_are_compared_across_hosts(void **state)
{
    (void)state;
    run_ranks(4, with_different_settings, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_launchers_are_understood),
        cmocka_unit_test(a_batch_script_is_a_job_of_one),
        cmocka_unit_test(nonsense_of_a_launcher_is_named),
        cmocka_unit_test(ranks_meet_at_an_address),
        cmocka_unit_test(ranks_meet_by_a_file),
        cmocka_unit_test(an_open_file_is_not_trusted),
        cmocka_unit_test(ports_and_interface_can_be_chosen),
        cmocka_unit_test(who_does_not_have_the_key_stays_outside),
        cmocka_unit_test(settings_are_compared_across_hosts),
    };
    return cmocka_run_group_tests_name("boot", tests, NULL, NULL);
}
