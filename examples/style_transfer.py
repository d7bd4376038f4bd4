"""Neural style transfer (Gatys, Ecker and Bethge, 2016): one picture, painted in the manner of another.

An image is a variable, and is changed until its features are those of the content and the correlations of its features
(Gram matrices) those of the style. There is no pretrained network here: the features are those of a small VGG-like
network with *random* filters, which carry textures and colours (Ustyuzhaninov and others, 2017) but know no objects: do
not expect what a VGG trained on photographs gives. Content and style are drawn by the script, or read from files; the
PNG file that it writes shows content, style and result. The measure is what is left of the style loss.

Measured at the default 128 x 128 pixels and 300 steps: 0.37% (8 s of one core).
"""

from __future__ import annotations

import argparse

import numpy as np

import thalweg as tf
from thalweg.datasets import pictures


def landscape(size: int) -> np.ndarray:
    """A content picture: sky, sun, two hills and a house."""
    y, x = np.mgrid[0:size, 0:size] / size
    image = np.stack([0.55 + 0.3 * y, 0.75 + 0.1 * y, 0.95 - 0.1 * y], -1)
    image[np.hypot(x - 0.75, y - 0.22) < 0.11] = (1.0, 0.9, 0.3)
    image[y > 0.62 + 0.12 * np.sin(5 * x)] = (0.3, 0.55, 0.3)
    image[y > 0.80 + 0.07 * np.cos(7 * x)] = (0.2, 0.4, 0.15)
    image[(np.abs(x - 0.3) < 0.12) & (np.abs(y - 0.7) < 0.1)] = (0.75, 0.3, 0.25)
    image[(np.abs(x - 0.3) < (y - 0.45) * 0.95) & (y < 0.6)] = (0.4, 0.2, 0.2)
    return image


def waves(size: int) -> np.ndarray:
    """A style picture: bent bands of strong colours."""
    y, x = np.mgrid[0:size, 0:size] / size
    bend = 3.0 * np.sin(4 * x + 2 * np.sin(5 * y)) + 2.0 * np.cos(6 * y - 3 * x)
    colours = np.array([(0.05, 0.1, 0.4), (0.95, 0.75, 0.1), (0.1, 0.45, 0.75), (0.95, 0.95, 0.85), (0.85, 0.3, 0.1)])
    return colours[np.floor(5.0 * bend).astype(int) % len(colours)]


def read_picture(path: str, size: int) -> tf.Tensor:
    pixels = tf.image.decode_image(tf.read_file(path), channels=3, expand_animations=False)
    return tf.image.resize_images(tf.cast(pixels, tf.float32) / 255.0, [size, size], method=tf.image.ResizeMethod.AREA)


def features(images: tf.Tensor) -> list[tf.Tensor]:
    """Four levels of random convolutions, each half as large as the one before."""
    x, levels = 2.0 * images - 1.0, []
    for i, channels in enumerate((32, 48, 64, 96)):
        if i:
            x = tf.layers.average_pooling2d(x, 2, 2)
        fan_in = 9 * int(x.shape[-1])
        filters = np.random.default_rng(i).normal(0.0, (2.0 / fan_in) ** 0.5, [3, 3, int(x.shape[-1]), channels])
        x = tf.nn.relu(tf.nn.conv2d(x, tf.constant(filters, tf.float32), strides=[1, 1, 1, 1], padding="SAME"))
        levels.append(x)
    return levels


def gram(level: tf.Tensor) -> tf.Tensor:
    """How often two features occur together, wherever in the image."""
    rows = tf.reshape(level, [-1, int(level.shape[-1])])
    return tf.matmul(rows, rows, transpose_a=True) / tf.cast(tf.shape(rows)[0], tf.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--content", help="an image file; a landscape is drawn by default")
    parser.add_argument("--style", help="an image file; bands of colour are drawn by default")
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--content_weight", type=float, default=0.1)
    parser.add_argument("--picture", default="style_transfer.png", help="the PNG file to write")
    args = parser.parse_args()

    with tf.Session() as session:
        content = session.run(read_picture(args.content, args.size)) if args.content else landscape(args.size)
        style = session.run(read_picture(args.style, args.size)) if args.style else waves(args.size)
        wanted = features(tf.constant(np.stack([content, style]), tf.float32))
        wanted = session.run([(level[:1], gram(level[1:])) for level in wanted])

    image = tf.get_variable(
        "image", initializer=content[None].astype(np.float32), constraint=lambda x: tf.clip_by_value(x, 0.0, 1.0)
    )
    losses = [
        (
            tf.reduce_mean(tf.square(level - goal)) / np.var(goal),
            tf.reduce_sum(tf.square(gram(level) - goal_gram)) / np.sum(goal_gram**2),
        )
        for level, (goal, goal_gram) in zip(features(image), wanted, strict=True)
    ]
    content_loss, style_loss = losses[2][0], tf.add_n([loss for _, loss in losses])
    smoothness = tf.reduce_sum(tf.image.total_variation(image)) / args.size**2
    step = tf.train.get_or_create_global_step()
    rate = tf.train.cosine_decay(0.03, step, args.steps, alpha=0.1)
    loss = style_loss + args.content_weight * content_loss + 0.001 * smoothness
    train = tf.train.AdamOptimizer(rate).minimize(loss, global_step=step)

    final = tf.train.FinalOpsHook((style_loss, content_loss, image))
    shown = tf.train.ProgressHook({"style": style_loss, "content": content_loss}, args.steps)
    with tf.train.MonitoredTrainingSession(hooks=[tf.train.StopAtStepHook(args.steps), shown, final]) as session:
        before = session.run_step_fn(lambda step_context: step_context.session.run(style_loss))
        while not session.should_stop():
            session.run(train)
    style_after, content_after, result = final.final_ops_values
    pictures.write_png(args.picture, pictures.tiles(np.stack([content, style, result[0]]), columns=3, gap=4))
    print(f"Style loss left: {style_after / before:.2%}, content loss {content_after:.3f}. See {args.picture}.")


if __name__ == "__main__":
    main()
