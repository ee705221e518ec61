"""Which samples a rank takes, and which are done."""

from rueda.torch.elastic import ElasticSampler

__all__ = ["ElasticSampler"]
