"""Not there: Horovod's compute service over ``tf.data``."""

from horovod._absent import say_absent

say_absent(
    "horovod.tensorflow.data",
    "let every rank read its part with dataset.shard(hvd.size(), hvd.rank()), or start tf.data's own service and "
    "give its address to dataset.apply(tf.data.experimental.service.distribute(…))",
)
