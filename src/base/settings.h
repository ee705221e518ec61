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
      "Random name of the job, under which its ranks on one host find each other.") \
    X(INT, start_timeout, "RUEDA_START_TIMEOUT", NULL, 30, 1, 86400, LOCAL, \
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
      "Algorithm for every collective that has it: auto, direct, ring, doubling, halving, tree, bruck, pairwise, adasum, hierarchical.") \
    X(TEXT, transport, "RUEDA_TRANSPORT", NULL, "auto", 0, 31, EQUAL, \
      "How data moves between ranks: auto or shm.") \
    X(BOOL, verify, "RUEDA_VERIFY", NULL, 0, 0, 1, LOCAL, \
      "Prove every plan before it runs for the first time; slow, for tests.") \
    X(BOOL, deterministic, "RUEDA_DETERMINISTIC", NULL, 0, 0, 1, EQUAL, \
      "The same bits every time: allreduce goes by the binary tree over the ranks, wherever they are and whatever was fused; slower.") \
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
    X(TEXT, log_level, "RUEDA_LOG_LEVEL", "HOROVOD_LOG_LEVEL", "warn", 0, 15, LOCAL, \
      "What is written to stderr: error, warn, info or debug.")
/* clang-format on */

#endif
