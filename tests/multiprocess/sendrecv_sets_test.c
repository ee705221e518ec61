/* sendrecv_sets_test.c: send and recv in process sets that come and go.
 * ctest: threads timeout=120 */
#include "parcels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* By MPI there are none: see refused_in_sets. */
static bool is_by_mpi(void)
{
    return strcmp(rueda_transport(), "mpi") == 0;
}

/* A set is made and removed again and again, and what was sent in it and never received is gone: the next set
 * in its place does not see it. */
static void in_sets(int rank, int size, const void *argument)
{
    (void)argument;
    CHECK_OK(rueda_init(NULL));
    if (is_by_mpi()) {
        CHECK_OK(rueda_shutdown());
        return;
    }
    for (int turn = 0; turn < 4; turn++) {
        int32_t set;
        const int32_t ranks[] = {0, size - 1};
        CHECK_OK(rueda_process_set_add(ranks, 2, &set));
        parcel in = {
            .dtype = RUEDA_F32, .count = 3000, .seed = (uint64_t)turn, .name = "in", .set = set};
        parcel out = in, lost = in, large = in;
        lost.name = "lost";
        large.name = "lost";
        large.count = 100000;
        const int other = rank == 0 ? size - 1 : 0;
        const bool member = rank == 0 || rank == size - 1;
        if (member) {
            parcel_start_send(&lost, other);
            parcel_start_send(&large, other);
            parcel_start_send(&out, other);
            parcel_start_receive(&in, turn % 2 == 0 ? other : RUEDA_ANY_RANK, true);
            CHECK_EQUAL(parcel_finish_receive(&in), other);
            parcel_finish_send(&out);
        }
        CHECK_OK(rueda_process_set_remove(set));
        if (member) {
            CHECK_STATUS(rueda_wait(lost.request, -1), RUEDA_ERR_SHUTDOWN);
            CHECK_SAYS("the process set was removed");
            CHECK_STATUS(rueda_wait(large.request, -1), RUEDA_ERR_SHUTDOWN);
            rueda_request_free(lost.request);
            rueda_request_free(large.request);
            memory_give(MEMORY_PRIVATE, lost.data);
            memory_give(MEMORY_PRIVATE, large.data);
        }
    }
    CHECK_OK(rueda_shutdown());
}

static void refused_in_sets(int rank, int size, const void *argument)
{
    (void)argument;
    (void)size;
    float value = 1;
    int32_t set;
    const int32_t first = 0;
    const rueda_tensor t = RUEDA_TENSOR("x", &value, RUEDA_F32, 0, NULL);
    CHECK_OK(rueda_init(NULL));
    if (!is_by_mpi()) {
        CHECK_OK(rueda_shutdown());
        return;
    }
    CHECK_OK(rueda_process_set_add(&first, 1, &set));
    rueda_options options = RUEDA_OPTIONS(RUEDA_SUM);
    options.process_set = set;
    if (rank == 0) {
        CHECK_STATUS(rueda_send(&t, 0, &options, NULL), RUEDA_ERR_ARGUMENT);
        CHECK_SAYS("the transport mpi does it between all ranks of the job only");
    }
    CHECK_OK(rueda_shutdown());
}

static void by_mpi_there_are_no_sets(void **state)
{
    (void)state;
    run_ranks(2, refused_in_sets, NULL);
}

/* The set goes while data is on its way: both ends are told, or it had come before. */
static void removed_in_the_middle(int rank, int size, const void *argument)
{
    (void)argument;
    CHECK_OK(rueda_init(NULL));
    if (is_by_mpi()) {
        CHECK_OK(rueda_shutdown());
        return;
    }
    const int32_t ranks[] = {0, size - 1};
    const int other = rank == 0 ? size - 1 : 0;
    for (int turn = 0; turn < 5; turn++) {
        int32_t set;
        CHECK_OK(rueda_process_set_add(ranks, 2, &set));
        parcel in = {.dtype = RUEDA_F32, .count = 2 << 20, .name = "middle", .set = set}, out = in;
        const bool member = rank == 0 || rank == size - 1;
        if (member) {
            parcel_start_send(&out, other);
            parcel_start_receive(&in, other, true);
            rueda_wait(in.request, turn);
        }
        CHECK_OK(rueda_process_set_remove(set));
        for (int i = 0; i < 2 && member; i++) {
            parcel *p = i == 0 ? &in : &out;
            const rueda_status status = rueda_wait(p->request, -1);
            CHECK(status == RUEDA_OK || status == RUEDA_ERR_SHUTDOWN);
            memset(p->data, turn, parcel_bytes(p));
            rueda_request_free(p->request);
            memory_give(MEMORY_PRIVATE, p->data);
        }
    }
    CHECK_OK(rueda_shutdown());
}

static void a_set_may_go_while_data_is_on_its_way(void **state)
{
    (void)state;
    run_ranks(3, removed_in_the_middle, NULL);
}

static void sets_have_messages_of_their_own(void **state)
{
    (void)state;
    run_ranks(3, in_sets, NULL);
    run_ranks(4, in_sets, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_have_messages_of_their_own),
        cmocka_unit_test(a_set_may_go_while_data_is_on_its_way),
        cmocka_unit_test(by_mpi_there_are_no_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
