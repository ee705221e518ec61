"""Not there."""

from horovod._absent import say_absent

say_absent("horovod.spark", "start ranks by `rueda run`, or by rueda.run() from the driver")
