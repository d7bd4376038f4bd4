"""Input pipelines of tf.data: the overhead of a small element, reading 1 GB of records, decoding and changing JPEGs.

Every case goes over its dataset once and reduces it to a number, which both frameworks have to agree on.
"""

import os
import tempfile
from pathlib import Path

import numpy as np

from case import Case, session, with_bytes
from cases.records import RECORD, count_of, record_file

ORDER = 21
BATCH = 100


def sum_of_dataset(tf, setting, make):
    """The step that iterates over a dataset of numbers once and sums them."""
    graph = tf.Graph()
    with graph.as_default():
        iterator = tf.data.make_initializable_iterator(make())
        element = iterator.get_next()
        total = tf.reduce_sum(tf.cast(element, tf.float64))
    sess = session(tf, setting, graph)
    start, take = sess.make_callable(iterator.initializer), sess.make_callable(total)

    def step():
        start()
        value = 0.0
        while True:
            try:
                value += float(take())
            except tf.errors.OutOfRangeError:
                return value

    return step


def numbers(setting):
    return np.arange(20_000 if setting.quick else 200_000, dtype=np.float32) % 97


def small_elements(tf, setting):
    def make():
        dataset = tf.data.Dataset.from_tensor_slices(numbers(setting))
        return dataset.map(lambda x: x * 2 + 1).shuffle(1000, seed=1).batch(BATCH).prefetch(2)

    return sum_of_dataset(tf, setting, make)


def small_elements_in_parallel(tf, setting):
    def make():
        dataset = tf.data.Dataset.from_tensor_slices(numbers(setting))
        mapped = dataset.map(lambda x: x * 2 + 1, num_parallel_calls=setting.threads)
        return mapped.shuffle(1000, seed=1).batch(BATCH).prefetch(2)

    return sum_of_dataset(tf, setting, make)


def slices_batched(tf, setting):
    return sum_of_dataset(tf, setting, lambda: tf.data.Dataset.from_tensor_slices(numbers(setting)).batch(BATCH))


def one_by_one(tf, setting):
    count = 2_000 if setting.quick else 20_000
    return sum_of_dataset(tf, setting, lambda: tf.data.Dataset.range(count))


def record_dataset(tf, setting):
    count = count_of(setting)
    path = record_file(tf, count, RECORD)

    def make():
        return tf.data.TFRecordDataset(path).batch(1000).map(tf.strings.length)

    return with_bytes(sum_of_dataset(tf, setting, make), count * RECORD)


def pictures(tf):
    """JPEG files of 320 x 240 pixels that compress as photographs do, made once for all frameworks."""
    path = Path(tempfile.gettempdir()) / f"thalweg-bench-{os.getuid()}-pictures.npy"
    if not path.exists():
        rng = np.random.default_rng(0)
        with tf.Graph().as_default(), tf.Session() as sess:
            coarse = rng.uniform(0, 255, (8, 12, 16, 3)).astype(np.float32)
            smooth = sess.run(tf.image.resize_images(coarse, [240, 320], tf.image.ResizeMethod.BICUBIC))
            noisy = np.clip(smooth + rng.normal(0, 6, smooth.shape), 0, 255).astype(np.uint8)
            files = sess.run([tf.image.encode_jpeg(picture, quality=90) for picture in noisy])
        unfinished = path.with_suffix(f".{os.getpid()}.npy")
        np.save(unfinished, np.array(files, object), allow_pickle=True)
        unfinished.rename(path)
    return list(np.load(path, allow_pickle=True))


def decoded_pictures(tf, setting):
    files = pictures(tf) * (8 if setting.quick else 64)

    def decode(content):
        picture = tf.image.decode_jpeg(content, channels=3, dct_method="INTEGER_ACCURATE")
        return tf.reduce_sum(tf.cast(picture, tf.float32))

    return sum_of_dataset(
        tf, setting, lambda: tf.data.Dataset.from_tensor_slices(files).map(decode, num_parallel_calls=2).prefetch(4)
    )


def augmented_pictures(tf, setting):
    files = pictures(tf) * (8 if setting.quick else 64)

    def augment(content):
        picture = tf.image.decode_jpeg(content, channels=3)
        picture = tf.image.convert_image_dtype(picture, tf.float32)
        picture = tf.image.resize_images(picture, [160, 160])
        picture = tf.image.flip_left_right(picture)
        return tf.image.per_image_standardization(tf.image.adjust_brightness(picture, 0.1)) + 1.0

    return sum_of_dataset(
        tf, setting,
        lambda: tf.data.Dataset.from_tensor_slices(files).map(augment, num_parallel_calls=2).batch(16).prefetch(2),
    )  # fmt: skip


CASES = {
    "small_elements": Case(
        "tf.data of small elements: map, shuffle, batch of 100, prefetch", small_elements, targets={"tensorflow": 3}
    ),
    "small_elements_in_parallel": Case(
        "the same with parallel calls", small_elements_in_parallel, targets={"tensorflow": 3}
    ),
    "slices_batched": Case("tf.data: slices in batches of 100", slices_batched, targets={"tensorflow": 3}),
    "one_by_one": Case("tf.data: one small element a step", one_by_one, targets={"tensorflow": 3}),
    "record_dataset": Case("TFRecordDataset, records of 1 KB", record_dataset, targets={"tensorflow": 1}),
    "decoded_pictures": Case("JPEGs of 320 x 240, decoded two at a time", decoded_pictures, targets={"tensorflow": 1}),
    "augmented_pictures": Case(
        "JPEGs decoded, resized, flipped, standardized, batched", augmented_pictures, targets={"tensorflow": 1}
    ),
}
