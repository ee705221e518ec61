/* station.c: see station.h. */
#include "station.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void set_form(const form *f, int rank)
{
    char host[16];
    setenv("RUEDA_TRANSPORT", f->transport, 1);
    if (f->setting != NULL)
        setenv(f->setting, f->value, 1);
    if (f->ranks_on_host == 0)
        return;
    snprintf(host, sizeof host, "host%d", rank / f->ranks_on_host);
    setenv("RUEDA_HOST", host, 1);
}

void send_whole(station *s, uint32_t channel, uint16_t peer, const void *data, size_t bytes)
{
    for (size_t sent = 0; sent < bytes;) {
        control_pump(&s->job, world_now_ns());
        const struct iovec part = {(uint8_t *)data + sent, bytes - sent};
        sent += s->table->send(s->channels[channel], peer, &part, 1);
        sched_yield();
    }
}

void receive_whole(station *s, uint32_t channel, uint16_t peer, void *to, size_t bytes)
{
    for (size_t got = 0; got < bytes;) {
        control_pump(&s->job, world_now_ns());
        got += s->table->receive(s->channels[channel], peer, (uint8_t *)to + got, bytes - got);
        sched_yield();
    }
}

/* One word each way between all pairs, in an order that nobody waits in a circle. */
static void connect_all(station *s)
{
    for (uint32_t c = 0; c < STATION_CHANNELS; c++) {
        for (uint16_t low = 0; low < s->members.size; low++) {
            for (uint16_t high = low + 1; high < s->members.size; high++) {
                const bool calls = s->members.index == high;
                const uint16_t peer = calls ? low : high;
                uint64_t word = UINT64_C(0x1122334455667788) + c, got = 0;
                if (s->members.index != low && !calls)
                    continue;
                doing("connecting to rank %u on channel %u", peer, c);
                if (calls)
                    send_whole(s, c, peer, &word, sizeof word);
                receive_whole(s, c, peer, &got, sizeof got);
                if (!calls)
                    send_whole(s, c, peer, &word, sizeof word);
                CHECK(got == word);
            }
        }
    }
}

/* As the engine does. */
static void join_job(station *s, boot_identity *who)
{
    boot_meeting meeting = {.door = NULL};
    const logger log = {LOG_WARN, -1};
    const rueda_init_options options = {.struct_size = sizeof options};
    const transport_terms terms = {&s->settings, &options, kernel_table_best(), &log};
    CHECK_OK(config_load(&s->settings, NULL));
    CHECK_OK(transports_check(&s->settings));
    CHECK_OK(transports_join(&s->transports, &terms));
    CHECK_OK(boot_identify(&s->settings, transports_share_memory(&s->settings), who));
    CHECK_OK(heap_open(&s->heap, MIB, (uint32_t)who->rank));
    CHECK_OK(boot_join(&s->settings, who, 1, &(attendance_ends){0}, &log,
                       &(boot_memory){.heap = &s->heap, .segment = &s->segment}, &meeting));
    s->job = (control){.segment = &s->segment, .rank = (uint32_t)who->rank, .generation = 1};
    CHECK_OK(transports_choose(&s->transports, &s->settings, meeting.door != NULL,
                               s->settings.host.text[0] != '\0' && who->size > 2));
    s->table = s->transports.table;
    if (meeting.door != NULL)
        CHECK_OK(control_open(&s->job, &meeting, who,
                              &(control_terms){.connect_ns = UINT64_C(30000000000)}, &log));
}

void open_station(station *s, const form *f, int rank)
{
    boot_identity who;
    *s = (station){.heap = HEAP_NONE};
    set_form(f, rank);
    join_job(s, &who);
    if (strcmp(f->transport, "auto") != 0 && who.size > 1)
        CHECK(strcmp(s->table->name, f->transport) == 0);
    for (int r = 0; r < who.size; r++)
        s->ranks[r] = (uint16_t)r;
    s->members = (control_members){&s->job, 0, (uint16_t)who.size, (uint16_t)who.rank, s->ranks, 0};
    for (uint32_t c = 0; c < STATION_CHANNELS; c++) {
        CHECK_OK(s->table->open(s->transports.job, &s->members, c, &s->channels[c]));
        CHECK(s->channels[c]->table == s->table);
        CHECK(s->channels[c]->members == &s->members);
    }
    connect_all(s);
    meet();
}

void close_station(station *s)
{
    meet(); /* peers may still look at our memory */
    for (uint32_t c = 0; c < STATION_CHANNELS; c++)
        s->table->close(s->channels[c]);
    s->table->close(NULL);
    transports_leave(&s->transports, true);
    control_close(&s->job);
    segment_close(&s->segment);
    heap_leave(&s->heap);
}

static void in_form(const form *f, job_body body, int least, int most)
{
    print_message("%s%s%s, %d ranks a host\n", f->transport, f->setting != NULL ? " " : "",
                  f->setting != NULL ? f->setting : "", f->ranks_on_host);
    for (int ranks = least; ranks <= most; ranks++)
        run_ranks(ranks, body, f);
}

void on_all_transports(job_body body, int least, int most)
{
    static const form two_a_host = {"auto", NULL, NULL, 2},
                      encrypted = {"auto", "RUEDA_ENCRYPT", "1", 1};
    const char *only = getenv("RUEDA_TRANSPORT"); /* NULL: all */
    const bool by_mpirun = harness_has_mpirun() || getenv("TEST_MPI_JOB") != NULL;
    for (size_t i = 0; transport_at(i) != NULL; i++) {
        const form named = {transport_at(i)->name, NULL, NULL, 0};
        if (transport_at(i)->by_mpirun == by_mpirun &&
            (only == NULL || strcmp(only, named.transport) == 0))
            in_form(&named, body, least, most);
    }
    if (only != NULL)
        return;
    in_form(&two_a_host, body, least, most);
    if (!by_mpirun)
        in_form(&encrypted, body, least, most);
}
