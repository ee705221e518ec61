"""Not there."""

from horovod._absent import say_absent

say_absent("horovod.mxnet", "MXNet is no longer developed; rueda.numpy combines its arrays by asnumpy()")
