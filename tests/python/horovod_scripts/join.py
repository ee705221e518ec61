"""Ranks with more and fewer batches: who is done joins, and the others go on."""

import torch

import horovod.torch as hvd

hvd.init()
torch.manual_seed(0)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
batches = 3 + 2 * hvd.rank()  # the last rank has most
for _ in range(batches):
    optimizer.zero_grad()
    model(torch.ones(4, 2)).sum().backward()
    optimizer.step()
last = hvd.join()
assert last == hvd.size() - 1, last
hvd.broadcast_parameters(model.state_dict(), root_rank=last)
everyones = hvd.allgather(model.weight.detach())
assert all(torch.equal(each, everyones[0]) for each in everyones)

hvd.init()  # a second call does nothing
if hvd.rank() == 0:
    torch.testing.assert_close(hvd.allreduce(torch.ones(2), name="alone"), torch.ones(2) / hvd.size())
hvd.join()
print("done")
