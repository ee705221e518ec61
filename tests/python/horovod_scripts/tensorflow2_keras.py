"""A script in the manner of Horovod's example for tf.keras; runs with Keras 3 and Keras 2."""

import tempfile

import numpy as np
import tensorflow as tf

import horovod.tensorflow.keras as hvd

hvd.init()
gpus = tf.config.experimental.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.experimental.set_visible_devices(gpus[hvd.local_rank()], "GPU")

random = np.random.default_rng(hvd.rank())
labels = random.integers(0, 4, size=512)
images = (np.eye(16)[labels * 3].reshape(-1, 4, 4, 1) + random.normal(0, 0.1, size=(512, 4, 4, 1))).astype("float32")
dataset = tf.data.Dataset.from_tensor_slices((images, labels)).repeat().shuffle(512).batch(16)

model = tf.keras.Sequential(
    [
        tf.keras.layers.Conv2D(4, [2, 2], activation="relu"),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dropout(0.1),
        tf.keras.layers.Dense(4, activation="softmax"),
    ]
)
scaled_lr = 0.005 * hvd.size()
opt = tf.keras.optimizers.Adam(scaled_lr)
opt = hvd.DistributedOptimizer(opt, backward_passes_per_step=1, average_aggregated_gradients=True)
model.compile(loss=tf.keras.losses.SparseCategoricalCrossentropy(), optimizer=opt, metrics=["accuracy"])
callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    hvd.callbacks.MetricAverageCallback(),
    hvd.callbacks.LearningRateWarmupCallback(initial_lr=scaled_lr, warmup_epochs=1, verbose=1),
]
with tempfile.TemporaryDirectory() as folder:
    if hvd.rank() == 0:
        callbacks.append(tf.keras.callbacks.ModelCheckpoint(folder + "/checkpoint-{epoch}.keras"))
    history = model.fit(
        dataset, steps_per_epoch=60 // hvd.size(), callbacks=callbacks, epochs=3, verbose=1 if hvd.rank() == 0 else 0
    ).history
assert history["accuracy"][-1] > 0.9, history
everyones = hvd.allgather(np.stack([np.abs(w).sum() for w in model.get_weights()])[None]).numpy()
assert (everyones == everyones[0]).all()
print("done")
