/* host_job.c: see host_job.h. */
#include "cli/launch/host_job.h"

#include "cli/launch/wire.h"
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>

void host_job_pack(const host_job *job, bytes *to)
{
    wire_add_text(to, job->host);
    wire_add_text(to, job->name);
    wire_add_text(to, job->key);
    wire_add_text(to, job->directory);
    wire_add_text(to, job->interfaces);
    wire_add_number(to, job->size);
    wire_add_number(to, job->first);
    wire_add_number(to, job->count);
    for (int i = 0; i < job->count; i++) {
        wire_add_number(to, job->ranks[i].cross_rank);
        wire_add_number(to, job->ranks[i].cross_size);
        wire_add_list(to, job->ranks[i].environment);
    }
    wire_add_list(to, job->environment);
    wire_add_number(to, job->step_count);
    for (int i = 0; i < job->step_count; i++)
        wire_add_list(to, job->steps[i]);
    wire_add_number(to, job->bind);
    wire_add_number(to, job->worker.ranks);
    wire_add_number(to, job->worker.cpus);
    wire_add_number(to, job->worker.memory_bytes);
    wire_add_number(to, job->silence_s);
    wire_add_number(to, job->plain);
    wire_add_number(to, job->results);
}

static void unpack_ranks(host_job *job, wire_reader *r)
{
    job->size = wire_int(r, 1, PLAN_MAX_RANKS);
    job->first = wire_int(r, 0, job->size - 1);
    job->count = wire_int(r, 1, job->size - job->first);
    job->ranks = bytes_new((size_t)job->count, sizeof *job->ranks);
    for (int i = 0; i < job->count; i++) {
        job->ranks[i].cross_rank = wire_int(r, 0, job->size - 1);
        job->ranks[i].cross_size = wire_int(r, 1, job->size);
        job->ranks[i].environment = wire_list(r);
    }
}

static void unpack_steps(host_job *job, wire_reader *r)
{
    job->step_count = wire_int(r, 1, HOST_JOB_STEPS_MAX);
    job->steps = bytes_new((size_t)job->step_count, sizeof *job->steps);
    for (int i = 0; i < job->step_count; i++) {
        job->steps[i] = wire_list(r);
        r->bad |= job->steps[i][0] == NULL;
    }
}

bool host_job_unpack(host_job *job, const void *body, size_t length)
{
    *job = (host_job){0};
    bytes_add(&job->memory, body, length);
    wire_reader r = {bytes_first(&job->memory), bytes_first(&job->memory) + length, length == 0};
    job->host = wire_text(&r);
    job->name = wire_text(&r);
    job->key = wire_text(&r);
    job->directory = wire_text(&r);
    job->interfaces = wire_text(&r);
    unpack_ranks(job, &r);
    job->environment = wire_list(&r);
    unpack_steps(job, &r);
    job->bind = (launch_bind)wire_int(&r, LAUNCH_BIND_AUTO, LAUNCH_BIND_SOCKET);
    job->worker.ranks = wire_int(&r, 0, PLAN_MAX_RANKS);
    job->worker.cpus = wire_int(&r, 0, INT32_MAX);
    job->worker.memory_bytes = wire_number(&r);
    job->silence_s = wire_int(&r, 0, INT32_MAX);
    job->plain = wire_int(&r, 0, 1) != 0;
    job->results = wire_int(&r, 0, 1) != 0;
    return !r.bad && r.at == r.end;
}

void host_job_free(host_job *job)
{
    for (int i = 0; i < job->count && job->ranks != NULL; i++)
        free(job->ranks[i].environment);
    for (int i = 0; i < job->step_count && job->steps != NULL; i++)
        free(job->steps[i]);
    free(job->ranks);
    free(job->steps);
    free(job->environment);
    bytes_free(&job->memory);
    *job = (host_job){0};
}

void host_answer_pack(const host_answer *answer, bytes *to)
{
    wire_add_text(to, answer->interface);
    wire_add_text(to, answer->ssh_here);
    wire_add_text(to, answer->ssh_there);
}

bool host_answer_unpack(host_answer *answer, const void *body, size_t length)
{
    wire_reader r = {body, (const char *)body + length, false};
    snprintf(answer->interface, sizeof answer->interface, "%s", wire_text(&r));
    snprintf(answer->ssh_here, sizeof answer->ssh_here, "%s", wire_text(&r));
    snprintf(answer->ssh_there, sizeof answer->ssh_there, "%s", wire_text(&r));
    return !r.bad && r.at == r.end;
}
