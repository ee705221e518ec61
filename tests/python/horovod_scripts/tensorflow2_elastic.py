"""Training with a tape that commits, fails once on all ranks, and goes on from the last commit."""

import tensorflow as tf

import horovod.tensorflow as hvd

hvd.init()
model = tf.keras.Sequential([tf.keras.layers.Dense(8, activation="tanh"), tf.keras.layers.Dense(1)])
opt = tf.keras.optimizers.Adam(0.01 * hvd.size())
data, target = tf.random.stateless_normal([32, 3], [hvd.rank(), 0]), tf.ones([32, 1])
starts, failed = [], []


@tf.function
def training_step(allreduce=True):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(data, training=True) - target))
    if allreduce:
        tape = hvd.DistributedGradientTape(tape)
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    return loss


@tf.function
def disagree():
    return hvd.allreduce(tf.zeros([1 + hvd.rank()]), name="disagree")


training_step(allreduce=False)  # makes the variables, so that they can be synchronised


@hvd.elastic.run
def train(state):
    starts.append(state.batch)
    for state.batch in range(state.batch, 30):
        training_step()
        if state.batch == 17 and not failed:
            failed.append(True)
            disagree()
        if state.batch % 10 == 0:
            state.commit()


state = hvd.elastic.TensorFlowKerasState(model, opt, batch=0)
state.register_reset_callbacks([lambda: opt.learning_rate.assign(0.01 * hvd.size())])
train(state)
assert starts == [0, 10] and failed, starts
everyones = hvd.allgather(tf.stack([tf.reduce_sum(tf.abs(w)) for w in model.get_weights()])[None])
assert bool(tf.reduce_all(everyones == everyones[0]))
print("done")
