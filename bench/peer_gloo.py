"""Gloo, as torch.distributed has it, for `rueda bench --against gloo`.

Started by the bench as: peer_gloo.py RANKS PATH_OF_THE_BOARD. Starts the ranks, each of which joins
the board of the bench through librueda-peer.so and runs one collective whenever that asks for it.
"""

import ctypes
import multiprocessing
import os
import sys
import tempfile
import warnings

# By the lists of rueda.h and plan.h.
(ALLREDUCE, ALLGATHER, BROADCAST, ALLTOALL, REDUCESCATTER,
 REDUCE, GATHER, SCATTER, BARRIER) = range(9)
DTYPES = {1: "uint8", 2: "int8", 4: "int16", 5: "int32", 6: "int64", 9: "float32", 10: "float64"}
OPS = {1: "SUM", 3: "MIN", 4: "MAX", 5: "PRODUCT"}

CALL = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int,
    ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64)


def make_call(torch, dist):
    """The function that the library calls for every operation."""
    views = {}

    def view(address, count, dtype):
        """The tensor over a buffer of the library's; remembered, so that it costs nothing again."""
        key = address, count, dtype
        if key not in views:
            kind = getattr(torch, DTYPES[dtype])
            size = count * torch.empty(0, dtype=kind).element_size()
            buffer = (ctypes.c_char * size).from_address(address)
            views[key] = torch.frombuffer(buffer, dtype=kind, count=count)
        return views[key]

    def run(collective, op, dtype, source, source_count, target, target_count):
        if collective == BARRIER:
            return dist.barrier()
        if collective in (REDUCE, GATHER, SCATTER):
            raise NotImplementedError("collectives with one root are not compared with gloo")
        given = view(source, source_count, dtype)
        result = view(target, target_count, dtype)
        if collective == ALLREDUCE:
            dist.all_reduce(given, op=getattr(dist.ReduceOp, OPS[op]))
        elif collective == ALLGATHER:
            dist.all_gather_into_tensor(result, given)
        elif collective == BROADCAST:
            dist.broadcast(given, 0)
        elif collective == ALLTOALL:
            dist.all_to_all_single(result, given)
        else:
            dist.reduce_scatter_tensor(result, given, op=getattr(dist.ReduceOp, OPS[op]))

    def call(*arguments):
        try:
            run(*arguments)
            return 0
        except Exception as error:  # noqa: BLE001 - whatever it is, the bench must hear of it
            print(f"gloo: {error}", file=sys.stderr)
            return 1

    return call


def serve(rank, size, meeting, board):
    import torch
    import torch.distributed as dist

    warnings.simplefilter("ignore", FutureWarning)  # names that are new there are unknown elsewhere
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=size)
    folder = os.path.dirname(os.path.abspath(__file__))
    library = ctypes.CDLL(os.path.join(folder, "librueda-peer.so"))
    failed = library.peer_serve(board.encode(), rank, CALL(make_call(torch, dist)))
    os._exit(failed)  # the others may be gone already: no farewell


def main():
    size, board = int(sys.argv[1]), sys.argv[2]
    with tempfile.TemporaryDirectory() as folder:
        meeting = os.path.join(folder, "meeting")
        ranks = [multiprocessing.Process(target=serve, args=(rank, size, meeting, board))
                 for rank in range(size)]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join()
    return max(process.exitcode != 0 for process in ranks)


if __name__ == "__main__":
    sys.exit(main())
