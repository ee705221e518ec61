/* station.h: a rank with channels of a transport, without an engine; for tests of what every transport must do.
 *
 * RUEDA_TRANSPORT names one that is tried alone; otherwise all that the registry has are. */
#ifndef RUEDA_TESTS_STATION_H
#define RUEDA_TESTS_STATION_H

#include "boot/boot.h"
#include "harness.h"
#include "memory/heap.h"
#include "transport/registry.h"

#define STATION_CHANNELS 3

/* A transport in one of its forms. */
typedef struct form {
    const char *transport;       /* RUEDA_TRANSPORT; "auto": the one that is chosen */
    const char *setting, *value; /* one more of the environment, or NULL */
    int ranks_on_host;           /* 0: as it is; else hosts are made up, so many ranks each */
} form;

/* A rank with its channels open and connected, all ranks having met since. */
typedef struct station {
    transports transports;
    const transport_table *table;
    config settings;
    heap heap;
    segment segment;
    control job;
    control_members members;
    uint16_t ranks[HARNESS_MAX_RANKS];
    transport_channel *channels[STATION_CHANNELS];
} station;

void open_station(station *s, const form *f, int rank);
void close_station(station *s);

/* Sends all, or receives all, of a small message; connections are made on the way. */
void send_whole(station *s, uint32_t channel, uint16_t peer, const void *data, size_t bytes);
void receive_whole(station *s, uint32_t channel, uint16_t peer, void *to, size_t bytes);

/* Runs the body with `least` to `most` ranks, on each transport in its forms; where mpirun starts the ranks on those
 * that need it, else on the others. The body's argument is the form. */
void on_all_transports(job_body body, int least, int most);

#endif
