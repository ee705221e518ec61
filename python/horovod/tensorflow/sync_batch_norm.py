"""Batch normalisation over the batches of all ranks."""

from rueda.tensorflow.sync_batch_norm import SyncBatchNormalization

__all__ = ["SyncBatchNormalization"]
