"""Ops of neural networks, images and random numbers."""

from pathlib import Path

import numpy as np

from op_sweep import Sweep, integers, normal, uniform

PICTURES = Path(__file__).resolve().parent.parent / "results"


def _convolutions():
    """Forward convolutions and both gradients: (images, height, channels in, channels out, filter, stride)."""
    for n, h, c, k, f, s in (
        (8, 56, 64, 64, 3, 1), (8, 56, 64, 128, 1, 1), (8, 56, 64, 128, 1, 2), (4, 224, 3, 64, 7, 2),
        (8, 28, 128, 128, 3, 2), (16, 28, 32, 64, 5, 1), (32, 14, 256, 256, 3, 1), (1, 112, 16, 16, 3, 1),
        (64, 8, 16, 16, 3, 1),
    ):  # fmt: skip
        size, o = f"{n}x{h}x{h}x{c}-{k} {f}x{f}/{s}", -(-h // s)
        x, w, g = normal(n, h, h, c), normal(f, f, c, k), normal(n, o, o, k)
        st = [1, s, s, 1]
        # PyTorch's own padding is symmetric, as "SAME" is for stride 1 and odd filters.
        torch = (
            (
                lambda t, x, w, f=f: t.nn.functional.conv2d(
                    x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), padding=f // 2
                ).permute(0, 2, 3, 1)
            )
            if s == 1
            else None
        )
        yield Sweep(
            "Conv2D",
            lambda tf, x, w, st=st: tf.nn.conv2d(x, w, strides=st, padding="SAME"),
            {size: [x, w]},
            "f32",
            torch,
        )
        yield Sweep(
            "Conv2DBackpropInput",
            lambda tf, w, g, st=st, shape=(n, h, h, c): tf.nn.conv2d_backprop_input(shape, w, g, st, "SAME"),
            {size: [w, g]},
            "f32",
        )
        yield Sweep(
            "Conv2DBackpropFilter",
            lambda tf, x, g, st=st, shape=(f, f, c, k): tf.nn.conv2d_backprop_filter(x, shape, g, st, "SAME"),
            {size: [x, g]},
            "f32",
        )


def _depthwise():
    for n, h, c, f, s in ((8, 56, 64, 3, 1), (8, 56, 64, 3, 2), (8, 28, 128, 5, 1), (4, 112, 32, 3, 1)):
        size, o = f"{n}x{h}x{h}x{c} {f}x{f}/{s}", -(-h // s)
        x, w, g = normal(n, h, h, c), normal(f, f, c, 1), normal(n, o, o, c)
        st = [1, s, s, 1]
        yield Sweep(
            "DepthwiseConv2d", lambda tf, x, w, st=st: tf.nn.depthwise_conv2d(x, w, st, "SAME"), {size: [x, w]}, "f32"
        )
        yield Sweep(
            "DepthwiseConv2dBackpropInput",
            lambda tf, w, g, st=st, shape=(n, h, h, c): tf.nn.depthwise_conv2d_native_backprop_input(
                shape, w, g, st, "SAME"
            ),
            {size: [w, g]},
            "f32",
        )
        yield Sweep(
            "DepthwiseConv2dBackpropFilter",
            lambda tf, x, g, st=st, shape=(f, f, c, 1): tf.nn.depthwise_conv2d_native_backprop_filter(
                x, shape, g, st, "SAME"
            ),
            {size: [x, g]},
            "f32",
        )


MAPS = {"8x56x56x64": (8, 56, 56, 64), "1x28x28x16": (1, 28, 28, 16)}


def _pool_gradient(tf, x, name):
    y = getattr(tf.nn, name)(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    return tf.gradients(y, x)[0]


def _picture(kind):
    """The bytes of an image's file, which bench/ops.py has written: only Thalweg's environment can encode all kinds."""
    return lambda dtype, rng: np.array((PICTURES / f"picture.{kind}").read_bytes(), object)


def write_pictures():
    """Writes a photograph-like image in all formats."""
    import PIL.Image  # here alone: the peers' environments lack it

    y, x = np.mgrid[:240, :320]
    noise = np.random.default_rng(1).normal(0, 4, (240, 320, 3))
    pixels = np.stack([128 + 60 * np.sin(x / 30 + i) + 50 * np.cos(y / 20) for i in range(3)], -1) + noise
    PICTURES.mkdir(exist_ok=True)
    for kind in ("png", "jpeg", "bmp", "gif"):
        PIL.Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(PICTURES / f"picture.{kind}")


SWEEPS = [
    *_convolutions(),
    *_depthwise(),
    Sweep(
        "Conv2D grouped",
        lambda tf, x, w: tf.nn.conv2d(x, w, strides=[1, 1, 1, 1], padding="SAME"),
        {"8x28x28x64-64 3x3 g8": [normal(8, 28, 28, 64), normal(3, 3, 8, 64)]},
        "f32",
        lambda t, x, w: t.nn.functional.conv2d(
            x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), padding=1, groups=8
        ).permute(0, 2, 3, 1),
    ),
    Sweep(
        "Conv2D dilated",
        lambda tf, x, w: tf.nn.conv2d(x, w, strides=[1, 1, 1, 1], padding="SAME", dilations=[1, 2, 2, 1]),
        {"4x56x56x32-32 3x3": [normal(4, 56, 56, 32), normal(3, 3, 32, 32)]},
        "f32",
    ),
    Sweep(
        "Conv1D",
        lambda tf, x, w: tf.nn.conv1d(x, w, 1, "SAME"),
        {"16x400x64-64 5": [normal(16, 400, 64), normal(5, 64, 64)]},
        "f32",
    ),
    Sweep(
        "Conv3D",
        lambda tf, x, w: tf.nn.conv3d(x, w, [1, 1, 1, 1, 1], "SAME"),
        {"2x16x28x28x16-32": [normal(2, 16, 28, 28, 16), normal(3, 3, 3, 16, 32)]},
        "f32",
    ),
    Sweep(
        "Conv2D double",
        lambda tf, x, w: tf.nn.conv2d(x, w, strides=[1, 1, 1, 1], padding="SAME"),
        {"4x28x28x32-32 3x3": [normal(4, 28, 28, 32), normal(3, 3, 32, 32)]},
        "f64 f16",
        tolerance=2e-2,
    ),
    Sweep(
        "MaxPool",
        lambda tf, x: tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME"),
        {s: [normal(*d)] for s, d in MAPS.items()},
        "f32 f64",
    ),
    Sweep(
        "MaxPool 3x3/1",
        lambda tf, x: tf.nn.max_pool(x, [1, 3, 3, 1], [1, 1, 1, 1], "SAME"),
        {s: [normal(*d)] for s, d in MAPS.items()},
        "f32",
    ),
    Sweep(
        "AvgPool",
        lambda tf, x: tf.nn.avg_pool(x, [1, 3, 3, 1], [1, 2, 2, 1], "SAME"),
        {s: [normal(*d)] for s, d in MAPS.items()},
        "f32 f64",
    ),
    Sweep(
        "MaxPoolGrad",
        lambda tf, x: _pool_gradient(tf, x, "max_pool"),
        {s: [normal(*d)] for s, d in MAPS.items()},
        "f32",
    ),
    Sweep(
        "AvgPoolGrad",
        lambda tf, x: _pool_gradient(tf, x, "avg_pool"),
        {s: [normal(*d)] for s, d in MAPS.items()},
        "f32",
    ),
    Sweep(
        "MaxPoolWithArgmax",
        lambda tf, x: tf.nn.max_pool_with_argmax(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME"),
        {"8x56x56x64": [normal(8, 56, 56, 64)]},
        "f32",
    ),
    Sweep(
        "FusedBatchNorm",
        lambda tf, x, a, b: tf.nn.fused_batch_norm(x, a, b)[:3],
        {s: [normal(*d), normal(d[3]), normal(d[3])] for s, d in MAPS.items()},
        "f32",
    ),
    Sweep(
        "BiasAdd",
        lambda tf, x, b: tf.nn.bias_add(x, b),
        {"8x56x56x64": [normal(8, 56, 56, 64), normal(64)], "1024x1000": [normal(1024, 1000), normal(1000)]},
        "f32 f64 f16",
    ),
    Sweep(
        "BiasAddGrad",
        lambda tf, x: tf.raw_ops.BiasAddGrad(out_backprop=x),
        {"8x56x56x64": [normal(8, 56, 56, 64)], "1024x1000": [normal(1024, 1000)]},
        "f32 f64",
    ),
    Sweep(
        "Softmax",
        lambda tf, x: tf.nn.softmax(x),
        {"128x10": [normal(128, 10)], "128x1000": [normal(128, 1000)], "64x32k": [normal(64, 32_000)]},
        "f32 f64 f16",
        lambda t, x: t.softmax(x, 1),
        tolerance=1e-2,
    ),
    Sweep(
        "LogSoftmax",
        lambda tf, x: tf.nn.log_softmax(x),
        {"128x10": [normal(128, 10)], "128x1000": [normal(128, 1000)]},
        "f32 f64",
        lambda t, x: t.log_softmax(x, 1),
    ),
    Sweep(
        "SoftmaxCrossEntropy",
        lambda tf, x, y: tf.nn.softmax_cross_entropy_with_logits(labels=tf.nn.softmax(y), logits=x),
        {"128x1000": [normal(128, 1000), normal(128, 1000)]},
        "f32 f64",
    ),
    Sweep(
        "SparseSoftmaxCrossEntropy",
        lambda tf, x, y: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=x),
        {
            "128x1000": [normal(128, 1000), integers(0, 1000, 128)],
            "64x32k": [normal(64, 32_000), integers(0, 32_000, 64)],
        },
        "f32 f64",
        lambda t, x, y: t.nn.functional.cross_entropy(x, y.long(), reduction="none"),
    ),
    Sweep("L2Loss", lambda tf, x: tf.nn.l2_loss(x), {"2M": [normal(1 << 21)]}, "f32 f64 f16"),
    Sweep("LRN", lambda tf, x: tf.nn.local_response_normalization(x), {"8x28x28x64": [normal(8, 28, 28, 64)]}, "f32"),
    Sweep(
        "Dropout",
        lambda tf, x: tf.nn.dropout(x, rate=0.5, seed=1),
        {"1M": [normal(1 << 20)]},
        "f32",
        lambda t, x: t.nn.functional.dropout(x, 0.5, True),
        compared=False,
    ),
    Sweep(
        "Dilation2D",
        lambda tf, x, w: tf.raw_ops.Dilation2D(
            input=x, filter=w, strides=[1, 1, 1, 1], rates=[1, 1, 1, 1], padding="SAME"
        ),
        {"4x56x56x16": [normal(4, 56, 56, 16), normal(3, 3, 16)]},
        "f32",
    ),
    Sweep(
        "CTCLoss",
        lambda tf, x: tf.nn.ctc_loss(
            tf.SparseTensor(
                np.stack([np.repeat(np.arange(16), 10), np.tile(np.arange(10), 16)], 1).astype(np.int64),
                np.tile(np.arange(10), 16).astype(np.int32),
                [16, 10],
            ),
            x,
            np.full(16, 100, np.int32),
        ),
        {"100x16x30": [normal(100, 16, 30)]},
        "f32",
    ),
    *(
        Sweep(op, call, {"2M": [normal(1 << 21)], "64k": [normal(1 << 16)]}, "f32", tolerance=1e-2)
        for op, call in (
            ("FakeQuantWithMinMaxArgs", lambda tf, x: tf.quantization.fake_quant_with_min_max_args(x, -2, 2)),
            (
                "FakeQuantWithMinMaxVars",
                lambda tf, x: tf.quantization.fake_quant_with_min_max_vars(x, x[0] * 0 - 2, x[0] * 0 + 2),
            ),
        )
    ),
    Sweep(
        "FakeQuantWithMinMaxVarsPerChannel",
        lambda tf, x, a: tf.quantization.fake_quant_with_min_max_vars_per_channel(x, -a, a),
        {"8x56x56x64": [normal(8, 56, 56, 64), uniform(1, 2, 64)]},
        "f32",
        tolerance=1e-2,
    ),
    Sweep(
        "FakeQuantWithMinMaxVarsGradient",
        lambda tf, x, g: tf.quantization.fake_quant_with_min_max_vars_gradient(g, x, x[0] * 0 - 2, x[0] * 0 + 2),
        {"2M": [normal(1 << 21), normal(1 << 21)]},
        "f32",
        tolerance=1e-2,
    ),
    Sweep(
        "FakeQuantWithMinMaxVarsPerChannelGradient",
        lambda tf, x, g, a: tf.quantization.fake_quant_with_min_max_vars_per_channel_gradient(g, x, -a, a),
        {"8x56x56x64": [normal(8, 56, 56, 64), normal(8, 56, 56, 64), uniform(1, 2, 64)]},
        "f32",
        tolerance=1e-2,
    ),
    Sweep(
        "QuantizeV2",
        lambda tf, x: tf.quantization.quantize(x, -3.0, 3.0, tf.quint8)[0],
        {"1M": [normal(1 << 20)]},
        "f32",
        compared=False,
    ),
    Sweep(
        "Dequantize",
        lambda tf, x: tf.quantization.dequantize(tf.bitcast(x, tf.quint8), -3.0, 3.0),
        {"1M": [integers(0, 255, 1 << 20, dtype=np.uint8)]},
        "u8",
    ),
    Sweep(
        "QuantizeAndDequantize",
        lambda tf, x: tf.quantization.quantize_and_dequantize(x, -3.0, 3.0),
        {"1M": [normal(1 << 20)]},
        "f32",
        tolerance=1e-2,
    ),
    Sweep(
        "ResizeBilinear",
        lambda tf, x: tf.image.resize_bilinear(x, [224, 224]),
        {"4x128x128x3": [normal(4, 128, 128, 3)], "4x56x56x32": [normal(4, 56, 56, 32)]},
        "f32 u8",
    ),
    Sweep(
        "ResizeNearest",
        lambda tf, x: tf.image.resize_nearest_neighbor(x, [224, 224]),
        {"4x128x128x3": [normal(4, 128, 128, 3)]},
        "f32 u8",
    ),
    Sweep(
        "ResizeBicubic",
        lambda tf, x: tf.image.resize_bicubic(x, [224, 224]),
        {"4x128x128x3": [normal(4, 128, 128, 3)]},
        "f32",
    ),
    Sweep(
        "ResizeArea", lambda tf, x: tf.image.resize_area(x, [64, 64]), {"4x128x128x3": [normal(4, 128, 128, 3)]}, "f32"
    ),
    Sweep(
        "CropAndResize",
        lambda tf, x, b: tf.image.crop_and_resize(x, b, np.arange(16, dtype=np.int32) % 4, [24, 24]),
        {"4x128x128x16": [normal(4, 128, 128, 16), uniform(0, 1, 16, 4)]},
        "f32",
    ),
    Sweep(
        "NonMaxSuppression",
        lambda tf, b, s: tf.image.non_max_suppression(tf.concat([b, b + 0.1], 1), s, 100),
        {"2000": [uniform(0, 1, 2000, 2), uniform(0, 1, 2000)]},
        "f32",
    ),
    Sweep("RGBToHSV", lambda tf, x: tf.image.rgb_to_hsv(x), {"512x512x3": [uniform(0, 1, 512, 512, 3)]}, "f32"),
    Sweep(
        "AdjustContrast",
        lambda tf, x: tf.image.adjust_contrast(x, 1.5),
        {"512x512x3": [uniform(0, 1, 512, 512, 3)]},
        "f32",
    ),
    Sweep("AdjustHue", lambda tf, x: tf.image.adjust_hue(x, 0.1), {"512x512x3": [uniform(0, 1, 512, 512, 3)]}, "f32"),
    Sweep(
        "RandomUniform",
        lambda tf, x: tf.random_uniform([1 << 20], dtype=x.dtype, seed=1),
        {"1M": [normal()]},
        "f32 f64",
        lambda t, x: t.rand(1 << 20, dtype=x.dtype),
        compared=False,
    ),
    Sweep(
        "RandomNormal",
        lambda tf, x: tf.random_normal([1 << 20], dtype=x.dtype, seed=1),
        {"1M": [normal()]},
        "f32 f64",
        lambda t, x: t.randn(1 << 20, dtype=x.dtype),
        compared=False,
    ),
    Sweep(
        "TruncatedNormal",
        lambda tf, x: tf.truncated_normal([1 << 20], dtype=x.dtype, seed=1),
        {"1M": [normal()]},
        "f32 f64",
        compared=False,
    ),
    Sweep(
        "RandomUniformInt",
        lambda tf, x: tf.random_uniform([1 << 20], 0, 100, dtype=x.dtype, seed=1),
        {"1M": [normal()]},
        "i32 i64",
        compared=False,
    ),
    Sweep(
        "RandomGamma",
        lambda tf, x: tf.random_gamma([1000], x, seed=1),
        {"100": [uniform(0.5, 3, 100)]},
        "f32",
        compared=False,
    ),
    Sweep(
        "RandomPoisson",
        lambda tf, x: tf.random_poisson(x, [1000], seed=1),
        {"100": [uniform(0.5, 30, 100)]},
        "f32",
        compared=False,
    ),
    Sweep(
        "Multinomial",
        lambda tf, x: tf.multinomial(x, 100, seed=1),
        {"64x1000": [normal(64, 1000)]},
        "f32",
        compared=False,
    ),
    Sweep(
        "RandomShuffle",
        lambda tf, x: tf.random_shuffle(x, seed=1),
        {"64k": [normal(1 << 16)], "1M": [normal(1 << 20)], "10k x 64": [normal(10_000, 64)]},
        "f32",
        compared=False,
    ),
    Sweep("DecodePng", lambda tf, x: tf.image.decode_png(x), {"320x240": [_picture("png")]}, "str"),
    Sweep("DecodeJpeg", lambda tf, x: tf.image.decode_jpeg(x), {"320x240": [_picture("jpeg")]}, "str", tolerance=2e-2),
    Sweep("DecodeBmp", lambda tf, x: tf.image.decode_bmp(x), {"320x240": [_picture("bmp")]}, "str"),
    Sweep("DecodeGif", lambda tf, x: tf.image.decode_gif(x), {"320x240": [_picture("gif")]}, "str"),
    Sweep(
        "EncodePng",
        lambda tf, x: tf.image.encode_png(x),
        {"240x320x3": [integers(100, 120, 240, 320, 3, dtype=np.uint8)]},
        "u8",
        compared=False,
    ),
    Sweep(
        "EncodeJpeg",
        lambda tf, x: tf.image.encode_jpeg(x),
        {"240x320x3": [integers(100, 120, 240, 320, 3, dtype=np.uint8)]},
        "u8",
        compared=False,
    ),
]
