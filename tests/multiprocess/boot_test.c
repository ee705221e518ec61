/* boot_test.c: the ways in which ranks find each other without our launcher: the variables of other
 * launchers, an explicit address, a file; with and without a key.
 * ctest: timeout=240 */
#include "harness.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
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

static char job_name[64]; /* the harness's */

/* What the harness says in our own words; the number of the job makes names and ports unique. */
static int forget_ourselves(void)
{
    static const char *const ours[] = {"RUEDA_RANK",       "RUEDA_SIZE", "RUEDA_LOCAL_RANK",
                                       "RUEDA_LOCAL_SIZE", "RUEDA_JOB",  "RUEDA_HOST"};
    unsigned number = 0;
    snprintf(job_name, sizeof job_name, "%s", getenv("RUEDA_JOB"));
    for (const char *c = job_name; *c != '\0'; c++)
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
    set("MASTER_PORT", "%d", 12000 + number);
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

/* Our parent is another on each host: it is no name for the job. */
static void under_pmi_of_several_hosts(int rank, int size, const void *argument)
{
    (void)argument;
    const int port = 20000 + forget_ourselves() % 9000;
    set("PMI_RANK", "%d", rank);
    set("PMI_SIZE", "%d", size);
    set("MPI_LOCALRANKID", "0");
    set("MPI_LOCALNRANKS", "1");
    set("RUEDA_TRANSPORT", "tcp");
    CHECK_STATUS(rueda_init(NULL), RUEDA_ERR_CONFIG);
    CHECK_SAYS("RUEDA_MEET=HOST:PORT");
    CHECK_SAYS("RUEDA_JOB=NAME");
    set("RUEDA_MEET", "127.0.0.1:%d", port);
    set("RUEDA_INSECURE", "1");
    CHECK_STATUS(rueda_init(NULL), RUEDA_ERR_CONFIG);
    CHECK_SAYS("RUEDA_JOB=NAME");
    set("PMI_JOBID", "%d", port);
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

/* Our names repeat what Slurm says, as in jobs that `rueda submit` writes. */
static void with_our_names(int rank, int size, const void *argument)
{
    (void)argument;
    const int number = forget_ourselves();
    set("SLURM_JOB_ID", "%d", number);
    set("SLURM_STEP_ID", "0");
    set("SLURM_PROCID", "%d", rank);
    set("SLURM_STEP_NUM_TASKS", "%d", size);
    set("RUEDA_RANK", "%d", rank);
    set("RUEDA_SIZE", "%d", size);
    set("HOROVOD_RANK", "%d", rank);
    work(rank, size);
    if (rank == 0) { /* other numbers than Slurm's: a job of its own */
        set("RUEDA_SIZE", "1");
        work(0, 1);
    }
}

static void our_names_may_repeat_a_launchers(void **state)
{
    (void)state;
    run_ranks(3, with_our_names, NULL);
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
    run_ranks(2, under_pmi_of_several_hosts, NULL);
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
    if (strncmp(place, "file:", 5) != 0)
        set("RUEDA_JOB", "%s", job_name);
}

static int listen_at(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 8) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Rank 0 finds the first ports taken by somebody who never answers. */
static void at_an_address(int rank, int size, const void *argument)
{
    char place[80];
    const int port = 20000 + forget_ourselves() % 9000;
    for (int i = 0; rank == 0 && i < 2; i++)
        CHECK(listen_at(port + i) >= 0);
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

/* ---- Two jobs at one place ------------------------------------------------------------------- */

/* Ranks of the harness are A0, B0, B1, A1; A adds up ones, B hundreds. */
typedef struct pair {
    const char *names[2];
    int apart; /* the ports at which they meet */
} pair;

enum { A0, B0, B1, A1 };

static bool is_job_b(int process)
{
    return process == B0 || process == B1;
}

static int port_of_pair(const pair *p, int process, int number)
{
    return 20000 + number % 9000 + (is_job_b(process) ? p->apart : 0);
}

static void become_one_of(const pair *p, int process, int number)
{
    char place[80];
    snprintf(place, sizeof place, "127.0.0.1:%d", port_of_pair(p, process, number));
    meet_at(process == A1 || process == B1, 2, place);
    set("RUEDA_JOB", "%s%s", p->names[is_job_b(process)], job_name);
    set("RUEDA_KEY", KEY_TEXT);
}

/* Until the counter says that it is this process' turn. */
static void await_turn(int turn)
{
    while (atomic_load(job_counter(0)) < turn)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
}

/* Until somebody else listens there. */
static void await_listener(int port)
{
    for (int fd; (fd = listen_at(port)) >= 0; nanosleep(&(struct timespec){0, 1000000}, NULL))
        close(fd);
}

static void add_up(int process)
{
    int64_t value = is_job_b(process) ? 100 : 1, shape[] = {1};
    const rueda_tensor tensor = RUEDA_TENSOR("value", &value, RUEDA_I64, 1, shape);
    CHECK_OK(rueda_init(NULL));
    CHECK_OK(rueda_allreduce(&tensor, &RUEDA_OPTIONS(RUEDA_SUM), NULL));
    CHECK_EQUAL(value, is_job_b(process) ? 200 : 2);
    CHECK_OK(rueda_shutdown());
}

/* One after the other: both ranks 0 listen before the others come, and those of B come first. */
static void both_at_one_place(int process, int size, const void *argument)
{
    (void)size;
    const pair *p = argument;
    const int number = forget_ourselves(), port = port_of_pair(p, A0, number);
    become_one_of(p, process, number);
    if (process == B0)
        await_listener(port);
    if (process == B1 || process == A1)
        await_listener(port + 1);
    if (process == A1)
        await_turn(1);
    add_up(process);
    if (process == B1)
        atomic_store(job_counter(0), 1);
}

/* A1 finds that its place is a stranger's, who leaves, and then that nobody is there: B0, which waits
 * nearby and has the same name, is not for it. */
static void five_ports_apart(int process, int size, const void *argument)
{
    (void)size;
    const pair *p = argument;
    const int number = forget_ourselves(), port = port_of_pair(p, A0, number);
    become_one_of(p, process, number);
    if (process == A0) {
        const int stranger = listen_at(port);
        CHECK(stranger >= 0);
        atomic_store(job_counter(0), 1);
        const int caller = accept(stranger, NULL, NULL);
        CHECK(caller >= 0);
        close(stranger);
        close(caller);
    }
    if (process == A1) {
        await_turn(1);
        await_listener(port + p->apart);
    }
    if (process == B1)
        await_turn(2);
    add_up(process);
    if (process == A0)
        atomic_store(job_counter(0), 2);
}

static void two_jobs_never_swap_ranks(void **state)
{
    (void)state;
    run_ranks(4, both_at_one_place, &(pair){{"a-", "b-"}, 0});
    run_ranks(4, five_ports_apart, &(pair){{"same-", "same-"}, 5});
}

static void without_a_name(int rank, int size, const void *argument)
{
    const char *const *secret = argument;
    forget_ourselves();
    meet_at(rank, size, "127.0.0.1:21000");
    unsetenv("RUEDA_JOB");
    set(secret[0], "%s", secret[1]);
    CHECK_STATUS(rueda_init(NULL), RUEDA_ERR_CONFIG);
    CHECK_SAYS("127.0.0.1:21000");
    CHECK_SAYS("give all ranks of this job the same RUEDA_JOB=NAME, another for each job");
}

static void a_place_to_meet_needs_a_name_of_the_job(void **state)
{
    (void)state;
    const char *const secrets[][2] = {
        {"RUEDA_KEY_FILE", "/nowhere"}, {"RUEDA_KEY", KEY_TEXT}, {"RUEDA_INSECURE", "1"}};
    for (size_t i = 0; i < sizeof secrets / sizeof secrets[0]; i++)
        run_ranks(2, without_a_name, secrets[i]);
}

/* ---- By a file ------------------------------------------------------------------------------- */

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

/* Also where no connection would ever use it. */
static void with_a_key_of_zeros(int rank, int size, const void *argument)
{
    (void)rank, (void)size;
    set("RUEDA_TRANSPORT", "%s", (const char *)argument);
    set("RUEDA_KEY", "%064d", 0);
    CHECK_STATUS(rueda_init(NULL), RUEDA_ERR_CONFIG);
    CHECK_SAYS("a key of zeros protects nothing");
}

static void who_does_not_have_the_key_stays_outside(void **state)
{
    (void)state;
    run_ranks(2, with_a_key_of_zeros, "auto");
    run_ranks(2, with_a_key_of_zeros, "tcp");
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
        cmocka_unit_test(our_names_may_repeat_a_launchers),
        cmocka_unit_test(a_batch_script_is_a_job_of_one),
        cmocka_unit_test(nonsense_of_a_launcher_is_named),
        cmocka_unit_test(ranks_meet_at_an_address),
        cmocka_unit_test(two_jobs_never_swap_ranks),
        cmocka_unit_test(a_place_to_meet_needs_a_name_of_the_job),
        cmocka_unit_test(ranks_meet_by_a_file),
        cmocka_unit_test(an_open_file_is_not_trusted),
        cmocka_unit_test(ports_and_interface_can_be_chosen),
        cmocka_unit_test(who_does_not_have_the_key_stays_outside),
        cmocka_unit_test(settings_are_compared_across_hosts),
    };
    return cmocka_run_group_tests_name("boot", tests, NULL, NULL);
}
