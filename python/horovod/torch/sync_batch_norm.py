"""Batch normalisation over the batches of all ranks."""

from rueda.torch.sync_batch_norm import SyncBatchNorm

__all__ = ["SyncBatchNorm"]
