/* settings.h: every setting of Rueda, once.
 *
 * X(type, field, name, alias, default, min, max, scope, doc)
 *   type     INT, BYTES (suffixes K, M, G allowed), BOOL (0/1, no/yes), TEXT
 *   field    member of struct config
 *   name     environment variable
 *   alias    Horovod's name for it, or NULL; ours wins when both are set
 *   default  number, or text for TEXT; min, max: bounds of a number, bytes of a TEXT
 *   scope    LOCAL, EQUAL (the ranks compare it at init), or JOB (set for each worker by its starter)
 * Environment variables, docs/configuration.md and `rueda doctor --config` come from this list.
 */
#ifndef RUEDA_BASE_SETTINGS_H
#define RUEDA_BASE_SETTINGS_H

#define KIB (INT64_C(1) << 10)
#define MIB (INT64_C(1) << 20)
#define GIB (INT64_C(1) << 30)

/* clang-format off */
#define SETTING_LIST(X) \
    X(INT, rank, "RUEDA_RANK", "HOROVOD_RANK", 0, 0, 65535, JOB, \
      "Rank of this process in the job.") \
    X(INT, size, "RUEDA_SIZE", "HOROVOD_SIZE", 1, 1, 4096, JOB, \
      "Number of ranks of the job.") \
    X(INT, local_rank, "RUEDA_LOCAL_RANK", "HOROVOD_LOCAL_RANK", -1, -1, 65535, JOB, \
      "Rank among the ranks of this host; -1: as RUEDA_RANK.") \
    X(INT, local_size, "RUEDA_LOCAL_SIZE", "HOROVOD_LOCAL_SIZE", -1, -1, 4096, JOB, \
      "Number of ranks on this host; -1: as RUEDA_SIZE.") \
    X(INT, cross_rank, "RUEDA_CROSS_RANK", "HOROVOD_CROSS_RANK", -1, -1, 65535, JOB, \
      "Index of this host among those that have a rank of this local rank; -1: 0.") \
    X(INT, cross_size, "RUEDA_CROSS_SIZE", "HOROVOD_CROSS_SIZE", -1, -1, 4096, JOB, \
      "Number of hosts that have a rank of this local rank; -1: 1.") \
    X(TEXT, job, "RUEDA_JOB", NULL, "", 0, 63, JOB, \
      "Name of the job, the same for all its ranks and no other job: what tells jobs apart until their ranks have met. `rueda run` makes one up; by hand RUEDA_MEET=HOST:PORT needs it.") \
    X(TEXT, meet, "RUEDA_MEET", NULL, "", 0, 255, JOB, \
      "Where ranks on several hosts meet: HOST:PORT of rank 0, which takes one of the 15 ports after it where somebody else has that, or file:PATH in a folder that all hosts see.") \
    X(TEXT, board, "RUEDA_BOARD", NULL, "", 0, 63, JOB, \
      "Where `rueda run` tells which ranks have ended, and learns whom the others name for it.") \
    X(BOOL, elastic, "RUEDA_ELASTIC", NULL, 0, 0, 1, EQUAL, \
      "The job outlives its workers: when one is lost the others go on without it, see docs/elastic.md. `rueda run --min-np` sets it.") \
    X(TEXT, key, "RUEDA_KEY", NULL, "", 0, 64, JOB, \
      "Secret of the job, 64 hexadecimal digits: who does not know it cannot join. `rueda run` makes one.") \
    X(TEXT, key_file, "RUEDA_KEY_FILE", NULL, "", 0, 255, LOCAL, \
      "File (mode 600) with the secret, where RUEDA_KEY is not given.") \
    X(BOOL, insecure, "RUEDA_INSECURE", NULL, 0, 0, 1, EQUAL, \
      "Several hosts without a secret: whoever reaches the ports can join the job, and whoever is on the path can read and change the data.") \
    X(TEXT, host, "RUEDA_HOST", NULL, "", 0, 63, LOCAL, \
      "Ranks with the same name here share memory; empty: the machine and its network namespace.") \
    X(TEXT, interface, "RUEDA_INTERFACE", "HOROVOD_GLOO_IFACE", "", 0, 255, LOCAL, \
      "Network interface (eth0) or network (10.0.0.0/8) for connections between hosts; empty: the one that leads to rank 0.") \
    X(TEXT, ports, "RUEDA_PORTS", NULL, "", 0, 15, LOCAL, \
      "Ports this rank may listen on, FIRST-LAST; empty: any.") \
    X(BOOL, encrypt, "RUEDA_ENCRYPT", NULL, 0, 0, 1, EQUAL, \
      "Encrypt what travels between hosts by tcp; without it, it is authenticated: it can be read on the path, not changed.") \
    X(INT, heartbeat, "RUEDA_HEARTBEAT", NULL, -1, -1, 86400, EQUAL, \
      "Seconds of silence after which a rank counts as lost (a stopped process, a dead network); 0: never; -1: 60, in an elastic job 10.") \
    X(INT, start_timeout, "RUEDA_START_TIMEOUT", "HOROVOD_GLOO_TIMEOUT_SECONDS", 30, 1, 86400, LOCAL, \
      "Seconds that rueda_init waits for the other ranks.") \
    X(BYTES, fusion_threshold, "RUEDA_FUSION_THRESHOLD", "HOROVOD_FUSION_THRESHOLD", 128 * MIB, 0, 64 * GIB, EQUAL, \
      "Tensors that are ready together are combined as one, up to this many bytes; 0: each alone.") \
    X(BYTES, slot_bytes, "RUEDA_SLOT_BYTES", NULL, 256 * KIB, 4 * KIB, 16 * MIB, EQUAL, \
      "Bytes of one shared-memory slot: data of ordinary memory moves in pieces of this size.") \
    X(INT, channels, "RUEDA_CHANNELS", NULL, 4, 1, 16, EQUAL, \
      "Operations of one process set that may be in flight at the same time.") \
    X(INT, cache_capacity, "RUEDA_CACHE_CAPACITY", "HOROVOD_CACHE_CAPACITY", 4096, 0, 65536, EQUAL, \
      "Tensors whose description is remembered, so that a bit is enough to announce them.") \
    X(BYTES, heap_max, "RUEDA_HEAP_MAX", NULL, 16 * GIB, 0, 1024 * GIB, EQUAL, \
      "Address space a rank reserves for rueda_alloc; memory is used only when allocated.") \
    X(TEXT, algorithm, "RUEDA_ALGORITHM", NULL, "auto", 0, 31, EQUAL, \
      "Algorithm for every collective that has it: auto, direct, ring, doubling, halving, tree, bruck, pairwise, adasum, hierarchical, native (the collectives of MPI).") \
    X(TEXT, transport, "RUEDA_TRANSPORT", NULL, "auto", 0, 31, EQUAL, \
      "How data moves between ranks: auto (shared memory inside a host; between hosts MPI where mpirun started the ranks and there is a plug-in for it, else tcp), shm, tcp or mpi.") \
    X(TEXT, mpi_plugin, "RUEDA_MPI_PLUGIN", NULL, "", 0, 255, LOCAL, \
      "The file librueda-mpi-FLAVOUR.so, or its folder; empty: the user's own, then the one beside the library.") \
    X(BOOL, verify, "RUEDA_VERIFY", NULL, 0, 0, 1, LOCAL, \
      "Prove every plan before it runs for the first time; slow, for tests.") \
    X(BOOL, deterministic, "RUEDA_DETERMINISTIC", NULL, 0, 0, 1, EQUAL, \
      "The same bits every time: allreduce and reduce go by the binary tree over the ranks, wherever they are and whatever was fused; slower.") \
    X(TEXT, kernel, "RUEDA_KERNEL", NULL, "auto", 0, 31, LOCAL, \
      "Instruction set of the arithmetic: auto, plain, avx2 or avx512; all give the same bits.") \
    X(INT, spin_us, "RUEDA_SPIN_US", NULL, 50, 0, 1000000, LOCAL, \
      "Microseconds of polling before a waiting rank gives up its core.") \
    X(INT, yield_us, "RUEDA_YIELD_US", NULL, 1000, 0, 1000000, LOCAL, \
      "Microseconds of polling with yields before a waiting rank sleeps.") \
    X(INT, stall_warn, "RUEDA_STALL_WARN", "HOROVOD_STALL_CHECK_TIME_SECONDS", 60, 0, 86400, LOCAL, \
      "Seconds after which a tensor that some ranks have not submitted is reported; 0: never.") \
    X(INT, stall_end, "RUEDA_STALL_END", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", 0, 0, 86400, LOCAL, \
      "Seconds after which such a tensor ends the job; 0: never.") \
    X(TEXT, timeline, "RUEDA_TIMELINE", "HOROVOD_TIMELINE", "", 0, 255, LOCAL, \
      "File that gets the timeline from rueda_init on, on rank 0; DYNAMIC: none until rueda_timeline_start.") \
    X(BOOL, timeline_all, "RUEDA_TIMELINE_ALL_RANKS", NULL, 0, 0, 1, LOCAL, \
      "Every rank writes into the timeline, not rank 0 alone.") \
    X(BOOL, timeline_mark_cycles, "RUEDA_TIMELINE_MARK_CYCLES", "HOROVOD_TIMELINE_MARK_CYCLES", 0, 0, 1, LOCAL, \
      "The timeline also shows when negotiation rounds start.") \
    X(BYTES, timeline_max, "RUEDA_TIMELINE_MAX", NULL, 1 * GIB, 64 * KIB, 1024 * GIB, LOCAL, \
      "The timeline's file gets no larger; what comes later is dropped and counted.") \
    X(INT, trace, "RUEDA_TRACE", NULL, 0, 0, 16777216, LOCAL, \
      "Records of the trace ring: the last steps of the operations, told when the job breaks; 0: off.") \
    X(TEXT, trace_file, "RUEDA_TRACE_FILE", NULL, "", 0, 255, LOCAL, \
      "File that then gets the trace, with .RANK appended; empty: its last records go to the log.") \
    X(TEXT, fault, "RUEDA_FAULT", NULL, "", 0, 127, LOCAL, \
      "For tests: what befalls a rank before a step of an operation, such as kill:rank=1:operation=5:step=12; also stop, delay (ms=50), cut, cut-data and cut-tree (peer=2); kill also in a phase of rueda_init (init=card).") \
    X(TEXT, log_level, "RUEDA_LOG_LEVEL", "HOROVOD_LOG_LEVEL", "warn", 0, 15, LOCAL, \
      "What is written to stderr: error, warn, info or debug.")
/* clang-format on */

#endif
