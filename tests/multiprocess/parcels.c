/* parcels.c: see parcels.h. */
#include "parcels.h"

#include <string.h>

#define GUARD 64 /* bytes behind an output that nobody may touch */
#define GUARD_BYTE 0xA5

size_t parcel_bytes(const parcel *p)
{
    return p->count * rueda_dtype_bytes(p->dtype);
}

static recipe recipe_of(const parcel *p)
{
    return RECIPE(p->dtype, RUEDA_SUM, p->seed);
}

static rueda_options options_of(const parcel *p)
{
    rueda_options options = RUEDA_OPTIONS(RUEDA_SUM);
    options.process_set = p->set;
    return options;
}

void parcel_start_send(parcel *p, int to)
{
    const recipe r = recipe_of(p);
    const int64_t shape[] = {(int64_t)p->count};
    const rueda_options options = options_of(p);
    p->data = memory_take(MEMORY_PRIVATE, parcel_bytes(p) + 1);
    recipe_fill(&r, rueda_rank(), 0, p->data, p->count);
    const rueda_tensor t = RUEDA_TENSOR(p->name, p->data, p->dtype, 1, shape);
    CHECK_OK(rueda_send(&t, to, &options, &p->request));
}

void parcel_start_receive(parcel *p, int from, bool in_place)
{
    const int64_t shape[] = {(int64_t)p->count};
    const rueda_options options = options_of(p);
    const size_t bytes = parcel_bytes(p);
    p->data = memory_take(MEMORY_PRIVATE, bytes + GUARD);
    memset(p->data, GUARD_BYTE, bytes + GUARD);
    rueda_tensor t = RUEDA_TENSOR(p->name, in_place ? p->data : NULL, p->dtype, 1, shape);
    if (!in_place) {
        t.output = p->data;
        t.output_bytes = bytes;
    }
    CHECK_OK(rueda_recv(&t, from, &options, &p->request));
}

void parcel_finish_send(parcel *p)
{
    CHECK_OK(rueda_wait(p->request, -1));
    const recipe r = recipe_of(p);
    recipe_check_copy(&r, rueda_rank(), 0, p->data, p->count);
    rueda_request_free(p->request);
    memory_give(MEMORY_PRIVATE, p->data);
}

int parcel_finish_receive(parcel *p)
{
    rueda_output output = RUEDA_OUTPUT;
    CHECK_OK(rueda_wait(p->request, -1));
    CHECK_OK(rueda_take_output(p->request, &output));
    CHECK_EQUAL(output.bytes, parcel_bytes(p));
    CHECK_EQUAL(output.ndim, 1);
    CHECK_EQUAL(output.shape[0], p->count);
    CHECK(output.data == p->data && !output.owned);
    const recipe r = recipe_of(p);
    recipe_check_copy(&r, output.source, 0, p->data, p->count);
    for (size_t i = 0; i < GUARD; i++)
        CHECK_EQUAL(p->data[parcel_bytes(p) + i], GUARD_BYTE);
    rueda_output_free(&output);
    rueda_request_free(p->request);
    memory_give(MEMORY_PRIVATE, p->data);
    return output.source;
}
