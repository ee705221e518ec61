"""Rank 0 has a checkpoint; the others take its model, optimizer, scheduler and epoch."""

import torch

import horovod.torch as hvd

hvd.init()
torch.manual_seed(hvd.rank())
kinds = [
    lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.8, 0.99)),
    lambda p: torch.optim.AdamW(p, amsgrad=True),
    lambda p: torch.optim.Adagrad(p),
    lambda p: torch.optim.RMSprop(p, centered=True),
]
for kind in kinds:
    model = torch.nn.Linear(3, 2)
    optimizer = kind(model.parameters())
    resume_from_epoch = 0
    if hvd.rank() == 0:
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.randn(2, 3)).pow(2).sum().backward()
            optimizer.step()
        optimizer.param_groups[0]["lr"] = 0.025
        resume_from_epoch = 4
    resume_from_epoch = hvd.broadcast(torch.tensor(resume_from_epoch), root_rank=0, name="epoch").item()
    assert resume_from_epoch == 4
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert optimizer.param_groups[0]["lr"] == 0.025
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    optimizer.zero_grad()
    model(torch.ones(2, 3)).pow(2).sum().backward()
    optimizer.step()
    states = hvd.allgather_object(optimizer.state_dict())
    for state in states[1:]:
        assert state["param_groups"] == states[0]["param_groups"]
        for number, values in states[0]["state"].items():
            for key, value in values.items():
                assert torch.equal(torch.as_tensor(value), torch.as_tensor(state["state"][number][key])), key

facts = hvd.broadcast_object({"best": 0.9, "seen": [1, 2]} if hvd.rank() == 0 else None, root_rank=0)
assert facts == {"best": 0.9, "seen": [1, 2]}
names = hvd.allgather_object(f"rank {hvd.rank()}" * (hvd.rank() + 1))
assert names == [f"rank {rank}" * (rank + 1) for rank in range(hvd.size())]
print("done")
