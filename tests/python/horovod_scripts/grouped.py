"""Tensors that travel together, and operations that come in groups."""

import torch

import horovod.torch as hvd

hvd.init()
rank, size = hvd.rank(), hvd.size()
tensors = [torch.full((n + 1,), float(rank + n)) for n in range(4)]
mean_rank = (size - 1) / 2
for n, mean in enumerate(hvd.grouped_allreduce(tensors, name="group")):
    assert mean.tolist() == [mean_rank + n] * (n + 1)
handle = hvd.grouped_allreduce_async(tensors, op=hvd.Sum)
sums = hvd.synchronize(handle)
assert sums[3].tolist() == [size * (mean_rank + 3)] * 4
hvd.grouped_allreduce_(tensors, op=hvd.Max, name="max")
assert tensors[0].item() == size - 1

gathered = hvd.grouped_allgather([torch.tensor([rank]), torch.full((rank + 1, 2), rank)], name="gather")
assert gathered[0].tolist() == list(range(size))
assert gathered[1].shape == (size * (size + 1) // 2, 2)
scattered = hvd.grouped_reducescatter([torch.arange(size + 1.0)] * 2, op=hvd.Sum, name="scatter")
assert scattered[0].tolist() == ([0, size] if rank == 0 else [size * (rank + 1.0)])

model = torch.nn.Sequential(*[torch.nn.Linear(3, 3) for _ in range(5)])
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
grouped = {"num_groups": 3}, {"groups": [list(model[0].parameters()), list(model[1].parameters())]}
for arguments in grouped:
    optimizer = torch.optim.Adam(model.parameters())
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), **arguments)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(2, 3)).sum().backward()
        optimizer.step()
    everyones = hvd.allgather(model[2].weight.detach().unsqueeze(0))
    assert all(torch.equal(each, everyones[0]) for each in everyones)

source = torch.randn(4, 3, generator=torch.Generator().manual_seed(rank))
gradients = []
for arguments in {}, {"num_groups": 2, "gradient_predivide_factor": 4.0}:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), **arguments)
    optimizer.zero_grad()
    model(source).pow(2).sum().backward()
    optimizer.step()
    gradients.append(model[0].weight.grad.clone())
torch.testing.assert_close(*gradients)
print("done")
