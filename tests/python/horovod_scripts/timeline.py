"""A timeline from the middle of a training on."""

import sys

import torch

import horovod.torch as hvd

hvd.init()
hvd.allreduce(torch.ones(2), name="before")
hvd.start_timeline(sys.argv[1], mark_cycles=True)
for _ in range(3):
    hvd.allreduce(torch.ones(5), name="inside")
hvd.stop_timeline()
hvd.allreduce(torch.ones(2), name="after")
print("done")
