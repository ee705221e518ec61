"""Not there."""

from horovod._absent import say_absent

say_absent("horovod.ray", "start ranks by `rueda run`, or by rueda.run() from the driver")
