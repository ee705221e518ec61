/* requests.c: polling, waiting, outputs and memory. */
#include "api/context.h"
#include "api/structs.h"

#include <stdio.h>

#include <stdlib.h>

static uint64_t deadline_after(int64_t timeout_ms)
{
    const uint64_t now = world_now_ns();
    if (timeout_ms < 0 || (uint64_t)timeout_ms > (UINT64_MAX - now) / 1000000u)
        return UINT64_MAX;
    return now + (uint64_t)timeout_ms * 1000000u;
}

int rueda_poll(const rueda_request *request)
{
    return request != NULL && request_ended(request);
}

static rueda_status final_status(const rueda_request *r)
{
    if (r->status == RUEDA_OK)
        return RUEDA_OK;
    /* there may have been no memory for the text */
    return status_restore(r->status, r->text == NULL ? rueda_status_sentence(r->status) : r->text);
}

static rueda_status wait_until(const context *here, rueda_request *r, uint64_t deadline_ns)
{
    if (r == NULL)
        return status_fail(RUEDA_ERR_ARGUMENT, "rueda_wait: request is NULL");
    if (!request_ended(r)) {
        engine *e = context_engine(here, "rueda_wait");
        if (e == NULL)
            return RUEDA_ERR_STATE;
        if (!engine_wait(e, r, deadline_ns))
            return RUEDA_PENDING;
    }
    return final_status(r);
}

rueda_status context_wait(const context *here, rueda_request *request, int64_t timeout_ms)
{
    return wait_until(here, request, deadline_after(timeout_ms));
}

rueda_status rueda_wait(rueda_request *request, int64_t timeout_ms)
{
    return context_wait(context_of_process(), request, timeout_ms);
}

rueda_status context_wait_all(const context *here, rueda_request *const *requests, size_t count,
                              int64_t timeout_ms)
{
    const uint64_t deadline_ns = deadline_after(timeout_ms);
    rueda_status first_error = RUEDA_OK;
    char text[STATUS_TEXT_MAX];
    for (size_t i = 0; i < count; i++) {
        const rueda_status status = wait_until(here, requests[i], deadline_ns);
        if (status == RUEDA_PENDING)
            return RUEDA_PENDING;
        if (status != RUEDA_OK && first_error == RUEDA_OK) {
            first_error = status;
            snprintf(text, sizeof text, "%s", status_text());
        }
    }
    return first_error == RUEDA_OK ? RUEDA_OK : status_restore(first_error, text);
}

rueda_status rueda_wait_all(rueda_request *const *requests, size_t count, int64_t timeout_ms)
{
    return context_wait_all(context_of_process(), requests, count, timeout_ms);
}

void rueda_request_free(rueda_request *request)
{
    if (request != NULL)
        request_release(request);
}

rueda_status rueda_take_output(rueda_request *request, rueda_output *output)
{
    static const struct_kind kind = {"rueda_output", sizeof(rueda_output), sizeof(rueda_output),
                                     NULL};
    if (request == NULL)
        return status_fail(RUEDA_ERR_ARGUMENT, "rueda_take_output: the request is NULL");
    if (!request_ended(request) || request->status != RUEDA_OK || !request->has_output)
        return status_fail(RUEDA_ERR_STATE, "rueda_take_output: the request %s",
                           !request_ended(request)       ? "has not ended; wait for it first"
                           : request->status != RUEDA_OK ? "ended with an error"
                                                         : "has no output, or it was taken before");
    request->output.owned = request->owns_output;
    const rueda_status status = struct_write("rueda_take_output", &kind, &request->output, output);
    if (status != RUEDA_OK)
        return status;
    request->has_output = request->owns_output = false;
    request->output.received_splits = NULL;
    return RUEDA_OK;
}

void rueda_output_free(rueda_output *output)
{
    if (output == NULL)
        return;
    if (output->owned)
        free(output->data);
    free(output->received_splits);
    output->data = NULL; /* field by field: a caller's structure may be smaller than ours */
    output->received_splits = NULL;
    output->bytes = 0;
    output->ndim = output->received_count = output->owned = 0;
}

void *context_alloc(const context *here, size_t bytes)
{
    engine *e = context_engine(here, "rueda_alloc");
    void *memory = NULL;
    return e != NULL && heap_alloc(e->heap, bytes, &memory) == RUEDA_OK ? memory : NULL;
}

void *rueda_alloc(size_t bytes)
{
    return context_alloc(context_of_process(), bytes);
}

void rueda_free(void *memory)
{
    if (memory != NULL)
        heap_free(&context_of_process()->heap, memory);
}
