"""Training that goes on after a failure."""

from rueda.torch.elastic import ElasticSampler, TorchState, run

__all__ = ["ElasticSampler", "TorchState", "run"]
