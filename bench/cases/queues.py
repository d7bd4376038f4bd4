"""Queues: the cost of an element, batches shuffled through a queue with four threads, a training step fed by one."""

import statistics
import time

import numpy as np

from case import Case, session

ORDER = 20
PAIRS = 1000
BATCH, TAKEN = 32, 20


def pairs(tf, setting):
    """One step with a chain of enqueues and dequeues."""
    graph = tf.Graph()
    with graph.as_default():
        queue = tf.FIFOQueue(10, tf.float32, shapes=[[]])
        value = tf.constant(1.0)
        for _ in range(PAIRS):
            with tf.control_dependencies([queue.enqueue(value)]):
                value = queue.dequeue()
        last = value + 1.0
    sess = session(tf, setting, graph)
    return lambda: sess.run(last)


def two_steps(tf, setting):
    """An element from one step to another."""
    graph = tf.Graph()
    with graph.as_default():
        queue = tf.FIFOQueue(10, tf.float32, shapes=[[4]])
        enqueue, dequeue = queue.enqueue([[1.0, 2.0, 3.0, 4.0]]), queue.dequeue()
    sess = session(tf, setting, graph)

    def step():
        sess.run(enqueue)
        return sess.run(dequeue)

    return step


def rows(tf, setting):
    """A thousand examples in and out of a shuffling queue, by the batch."""
    graph = tf.Graph()
    with graph.as_default():
        queue = tf.RandomShuffleQueue(4000, 1000, [tf.float32, tf.int32], shapes=[[10], []])
        enqueue = queue.enqueue_many([tf.ones([1000, 10]), tf.range(1000)])
        batch = queue.dequeue_many(100)[0]
    sess = session(tf, setting, graph)
    sess.run(enqueue)

    def step():
        sess.run(enqueue)
        return np.mean([sess.run(batch).mean() for _ in range(10)])

    return step


def shuffled_batches(tf, setting):
    """Twenty batches of a pipeline that four threads keep filled, one example a step."""
    graph = tf.Graph()
    with graph.as_default():
        number = tf.train.range_input_producer(1000, capacity=200).dequeue()
        image = tf.fill([784], tf.cast(number, tf.float32))
        images, labels = tf.train.shuffle_batch([image, number], BATCH, 2000, 500, num_threads=4)
        total = tf.reduce_sum(images[:, 0] - tf.cast(labels, tf.float32))
    sess = session(tf, setting, graph)
    with graph.as_default():
        tf.train.start_queue_runners(sess, tf.train.Coordinator(), daemon=True)

    def step():
        return sum(sess.run(total) for _ in range(TAKEN))

    return step


def training(tf, source):
    """The training step of a small perceptron, fed from a variable or through a queue."""
    random = np.random.default_rng(3)
    images = tf.Variable(random.standard_normal((128, 784), dtype=np.float32), trainable=False, use_resource=True)
    labels = tf.Variable(random.integers(0, 10, 128), trainable=False, use_resource=True)
    x, y = tf.convert_to_tensor(images), tf.convert_to_tensor(labels)
    if source == "queue":
        queue = tf.FIFOQueue(8, [tf.float32, tf.int64], shapes=[[128, 784], [128]])
        tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue([x, y])]))
        x, y = queue.dequeue()
    for inputs, units in ((784, 512), (512, 512), (512, 10)):
        start = random.standard_normal((inputs, units), dtype=np.float32) / np.float32(np.sqrt(inputs))
        x = tf.matmul(x, tf.Variable(start, use_resource=True))
        x = tf.nn.relu(x) if units > 10 else x
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=x))
    return tf.train.GradientDescentOptimizer(0.01).minimize(loss)


def training_loss(tf, setting):
    """The fraction by which a training step is slower when a queue feeds it."""
    sessions = []
    for source in ("variable", "queue"):
        graph = tf.Graph()
        with graph.as_default():
            step = training(tf, source)
            initialize = tf.global_variables_initializer()
        sess = session(tf, setting, graph)
        sess.run(initialize)
        with graph.as_default():
            tf.train.start_queue_runners(sess, tf.train.Coordinator(), daemon=True)
        sessions.append((sess, step))

    def measure():
        times = ([], [])
        for _ in range(20 if setting.quick else 60):
            for (sess, step), taken in zip(sessions, times, strict=True):
                start = time.perf_counter()
                for _ in range(5):
                    sess.run(step)
                taken.append(time.perf_counter() - start)
        variable, queue = map(statistics.median, times)
        return max(queue / variable - 1, 1e-6)

    return measure


CASES = {
    "queue_pairs": Case(f"{PAIRS} enqueue/dequeue pairs in one step", pairs, targets={"tensorflow": 3}),
    "queue_steps": Case("an element enqueued by one step, dequeued by another", two_steps, targets={"tensorflow": 3}),
    "queue_rows": Case("1,000 examples through a shuffling queue, by batches", rows, targets={"tensorflow": 3}),
    "shuffle_batch": Case(
        f"shuffle_batch with 4 threads: {TAKEN} batches of {BATCH}", shuffled_batches, targets={"tensorflow": 3}
    ),
    "queue_training": Case(
        "what a training step loses when a queue feeds it, not a variable",
        training_loss,
        unit="%",
        at_most=0.03,
        self_measured=True,
    ),
}
