"""Batch normalisation over the batches of all ranks."""

from __future__ import annotations

from typing import Optional

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from ._autograd import allreduce
from .._process_sets import ProcessSet, global_process_set
from .._reduce_op import Sum


class SyncBatchNorm(_BatchNorm):
    """``torch.nn.BatchNorm*d`` whose mean and variance, while training, are those of all ranks together,
    whatever the sizes of their batches. Any device, any number of dimensions from 2 on."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: Optional[float] = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats)
        self.process_set = process_set

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"SyncBatchNorm needs at least 2 dimensions, not {input.dim()}")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self._check_input_dim(input)
        uses_batch = self.training or self.running_mean is None
        if not uses_batch or self.process_set.size() == 1:
            return super().forward(input)
        return self._normalise(input)

    def _normalise(self, input: torch.Tensor) -> torch.Tensor:
        wide = input if input.dtype == torch.float64 else input.float()
        others = [d for d in range(input.dim()) if d != 1]
        shape = [1, -1] + [1] * (input.dim() - 2)
        values = wide.new_tensor([input.numel() // max(input.shape[1], 1)])
        # two sums instead of a sum of squares: nothing cancels
        totals = allreduce(torch.cat([wide.sum(others), values]), op=Sum, process_set=self.process_set)
        count = totals[-1].detach()
        mean = totals[:-1] / count
        centred = wide - mean.view(shape)
        variance = allreduce(centred.square().sum(others), op=Sum, process_set=self.process_set) / count
        if self.training and self.track_running_stats:
            self._remember(mean.detach(), variance.detach(), count)
        result = centred * torch.rsqrt(variance + self.eps).view(shape)
        if self.affine:
            result = result * self.weight.view(shape) + self.bias.view(shape)
        return result.to(input.dtype)

    @torch.no_grad()
    def _remember(self, mean: torch.Tensor, variance: torch.Tensor, count: torch.Tensor) -> None:
        assert self.num_batches_tracked is not None and self.running_mean is not None and self.running_var is not None
        self.num_batches_tracked.add_(1)
        momentum = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        unbiased = variance * (count / (count - 1).clamp(min=1))
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum)
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), momentum)
