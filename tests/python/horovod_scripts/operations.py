"""Handles, splits, scales, sparse gradients, normalisation over all ranks, a compressor of one's own."""

import torch

import horovod.torch as hvd

hvd.init()
rank, size = hvd.rank(), hvd.size()
assert hvd.is_initialized() and hvd.is_homogeneous()
assert (hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size()) == (rank, size, 0, 1)
assert not hvd.mpi_threads_supported() and hvd.gloo_enabled()

handles = [hvd.allreduce_async(torch.full((3,), float(n)), name=f"n.{n}") for n in range(20)]
for n, handle in enumerate(handles):
    assert hvd.synchronize(handle).tolist() == [n] * 3 and hvd.poll(handle)
tensor = torch.full((2, 2), rank + 1.0)
assert hvd.allreduce_(tensor, average=False).tolist() == [[size * (size + 1) / 2] * 2] * 2
assert hvd.allreduce(torch.ones(1), op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0).item() == 2 * size

splits = torch.tensor([rank + 1] * size)
received, counts = hvd.alltoall(torch.full((size * (rank + 1),), rank), splits=splits)
assert counts.tolist() == [r + 1 for r in range(size)]
assert received.tolist() == [r for r in range(size) for _ in range(r + 1)]
assert hvd.alltoall(torch.arange(size)).tolist() == [rank] * size

weight = torch.ones(3, requires_grad=True)
hvd.allreduce(weight * (rank + 1.0), op=hvd.Sum).sum().backward()
assert weight.grad.tolist() == [size * (rank + 1.0)] * 3

for sparse_as_dense in (False, True):
    table = torch.nn.Embedding(10, 2, sparse=True)
    hvd.broadcast_parameters(table.state_dict(), root_rank=0)
    optimizer = torch.optim.SGD(table.parameters(), lr=1.0)
    optimizer = hvd.DistributedOptimizer(
        optimizer, named_parameters=table.named_parameters(), sparse_as_dense=sparse_as_dense
    )
    before = table.weight.detach().clone()
    optimizer.zero_grad()
    table(torch.tensor([rank, 9])).sum().backward()
    optimizer.step()
    change = before - table.weight.detach()
    torch.testing.assert_close(change[9], torch.ones(2))
    torch.testing.assert_close(change[:size], torch.full((size, 2), 1 / size))
sparse = torch.sparse_coo_tensor([[rank]], [[1.0, 1.0]], (size, 2))
assert hvd.sparse_allreduce_async(sparse, "sparse", hvd.Sum)().to_dense().tolist() == [[1, 1]] * size

source = torch.Generator().manual_seed(5)
everything = torch.randn(4 * size, 3, generator=source)
ours, theirs = hvd.SyncBatchNorm(3), torch.nn.BatchNorm1d(3)
result = ours(everything[4 * rank : 4 * rank + 4])
torch.testing.assert_close(result, theirs(everything)[4 * rank : 4 * rank + 4], rtol=1e-4, atol=1e-5)
torch.testing.assert_close(ours.running_var, theirs.running_var)


class Halves:
    """Sends half of the value."""

    @staticmethod
    def compress(tensor):
        return tensor / 2, "halved"

    @staticmethod
    def decompress(tensor, ctx):
        assert ctx == "halved"
        return tensor * 2


assert hvd.allreduce(torch.ones(2), compression=Halves).tolist() == [1, 1]
half = hvd.allreduce(torch.tensor([1.0, 2.0]), compression=hvd.Compression.fp16)
assert half.dtype == torch.float32 and half.tolist() == [1, 2]
model = torch.nn.Linear(2, 1)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), compression=Halves)
model(torch.full((1, 2), rank + 1.0)).sum().backward()
optimizer.step()
mean = (size + 1) / 2
torch.testing.assert_close(model.weight.grad, torch.full((1, 2), mean))

hvd.barrier()
hvd.shutdown()
hvd.init()
assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == size
print("done")
