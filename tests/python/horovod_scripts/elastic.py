"""Training that commits, fails once on all ranks, and goes on from the last commit."""

import torch

import horovod.torch as hvd

hvd.init()
torch.manual_seed(hvd.rank())
dataset = torch.utils.data.TensorDataset(torch.arange(40.0).view(-1, 1))
sampler = hvd.elastic.ElasticSampler(dataset, shuffle=True)
loader = torch.utils.data.DataLoader(dataset, batch_size=4, sampler=sampler)
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4 * hvd.size(), momentum=0.5)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
failed, resets, restarts = [], [], []


def on_state_reset():
    resets.append(hvd.size())
    for group in optimizer.param_groups:
        group["lr"] = 1e-4 * hvd.size()


@hvd.elastic.run
def train(state, epochs):
    restarts.append((state.epoch, state.batch))
    for state.epoch in range(state.epoch, epochs):
        for batch_idx, (data,) in enumerate(loader):
            optimizer.zero_grad()
            model(data).pow(2).mean().backward()
            optimizer.step()
            sampler.record_batch(batch_idx, len(data))
            state.batch += 1
            if state.batch % 2 == 0:
                state.commit()
            if state.epoch == 1 and state.batch == 3 and not failed:
                failed.append(model.weight.detach().clone())
                shape = (1,) if hvd.rank() == 0 else (2,)
                hvd.allreduce(torch.zeros(shape), name="disagree")
        state.batch = 0
        sampler.set_epoch(state.epoch + 1)
        state.commit()
    return "trained"


state = hvd.elastic.TorchState(model=model, optimizer=optimizer, sampler=sampler, epoch=0, batch=0)
state.register_reset_callbacks([on_state_reset])
assert train(state, epochs=3) == "trained"
assert len(failed) == 1 and resets == [hvd.size()]
assert restarts == [(0, 0), (1, 2)], restarts
everyones = hvd.allgather(model.weight.detach())
assert all(torch.equal(each, everyones[0]) for each in everyones)
print("done")
