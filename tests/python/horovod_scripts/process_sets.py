"""Even and odd ranks combine among themselves."""

import torch

import horovod.torch as hvd

even_set = hvd.ProcessSet(range(0, 4, 2))
odd_set = hvd.ProcessSet(range(1, 4, 2))
hvd.init(process_sets=[even_set, odd_set])
assert hvd.size() == 4

mine = even_set if hvd.rank() % 2 == 0 else odd_set
other = odd_set if mine is even_set else even_set
assert mine.included() and not other.included()
assert mine.size() == 2 and mine.rank() == hvd.rank() // 2
assert mine.process_set_id in (1, 2) and hvd.global_process_set.size() == 4

total = hvd.allreduce(torch.tensor([float(hvd.rank())]), op=hvd.Sum, name="sum", process_set=mine)
assert total.item() == sum(mine.ranks)
assert hvd.allgather(torch.tensor([hvd.rank()]), process_set=mine).tolist() == mine.ranks
root = mine.ranks[1]
assert hvd.broadcast(torch.tensor([hvd.rank()]), root, process_set=mine).item() == root
assert hvd.broadcast_object(("from", hvd.rank()), root, process_set=mine) == ("from", root)

torch.manual_seed(hvd.rank())
model = torch.nn.Linear(3, 1)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), process_set=mine)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(5, 3) + hvd.rank() % 2).sum().backward()
    optimizer.step()
weights = hvd.allgather(model.weight.detach())
assert torch.equal(weights[0], weights[2]) and torch.equal(weights[1], weights[3])
assert not torch.equal(weights[0], weights[1])

pair = hvd.add_process_set(hvd.ProcessSet([1, 2]))
if pair.included():
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=pair).item() == 2
assert hvd.remove_process_set(pair)
print("done")
