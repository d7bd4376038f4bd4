"""Cases of the ops on boxes in images: suppression, drawing, sampling, glimpses."""

from __future__ import annotations

from typing import Any

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, covered_elsewhere, real


def _f(*values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def _overlap(a: Any, b: Any) -> float:
    def corners(box: Any) -> tuple[Any, Any]:
        return np.minimum(box[:2], box[2:]), np.maximum(box[:2], box[2:])

    (low_a, high_a), (low_b, high_b) = corners(a), corners(b)
    area_a, area_b = np.prod(high_a - low_a), np.prod(high_b - low_b)
    if not (area_a > 0 and area_b > 0):
        return 0.0
    shared = np.prod(np.maximum(np.minimum(high_a, high_b) - np.maximum(low_a, low_b), 0))
    return shared / (area_a + area_b - shared)


def _suppress(
    boxes: Any, scores: Any, most: Any, threshold: Any = 0.5, score_threshold: Any = -np.inf, overlaps: Any = None
) -> Any:
    chosen: list[int] = []
    for i in sorted(range(len(scores)), key=lambda i: (-float(scores[i]), i)):
        if len(chosen) == most or not scores[i] > score_threshold:
            continue
        shared = [_overlap(boxes[i], boxes[j]) if overlaps is None else overlaps[i, j] for j in chosen]
        if all(s <= threshold for s in shared):
            chosen.append(i)
    return np.array(chosen, np.int32)


_rng = np.random.default_rng(3)
_CORNERS = _rng.uniform(0, 1, (30, 4)).astype(np.float32)
_CORNERS[3] = _CORNERS[7]
_SCORES = np.round(_rng.uniform(-1, 1, 30), 1).astype(np.float32)
_MOST = np.array(8, np.int32)
_BAD = [
    Bad(Args(_CORNERS, _SCORES, np.array(-1, np.int32)), match="non-negative"),
    Bad(Args(_CORNERS, _SCORES[:5], _MOST), match="incompatible"),
    Bad(Args(_CORNERS[:, :3], _SCORES, _MOST), match="num_boxes, 4"),
    Bad(Args(_CORNERS, _SCORES[:, None], _MOST), match="incompatible"),
    Bad(Args(_CORNERS, _SCORES, np.array([3], np.int32)), match="0-D"),
]
_BAD_THRESHOLDS = [
    Bad(Args(_CORNERS, _SCORES, _MOST, np.array(1.5, np.float32)), match="[0, 1]"),
    Bad(Args(_CORNERS, _SCORES, _MOST, np.array(np.nan, np.float32)), match="[0, 1]"),
    Bad(Args(_CORNERS, _SCORES, _MOST, np.array([0.5], np.float32)), match="0-D"),
]
_NANS = _CORNERS * np.float32(np.nan)
case(
    "NonMaxSuppression",
    lambda b, s, m, iou_threshold=0.5: tf.raw_ops.NonMaxSuppression(
        boxes=b, scores=s, max_output_size=m, iou_threshold=iou_threshold
    ),
    lambda b, s, m, iou_threshold=0.5: _suppress(b, s, m, iou_threshold),
    samples=[Args(_CORNERS, _SCORES, _MOST), Args(_CORNERS, _SCORES, np.array(0, np.int32), iou_threshold=0.1)],
    dtypes="float32",
    bad=_BAD,
)
case(
    "NonMaxSuppressionV2",
    lambda b, s, m, t=0.5: tf.raw_ops.NonMaxSuppressionV2(boxes=b, scores=s, max_output_size=m, iou_threshold=t),
    _suppress,
    samples=[Args(_CORNERS, _SCORES, _MOST, _f(0.2)[0, ...]), Args(_CORNERS[:0], _SCORES[:0], _MOST, _f(0.2)[0, ...])],
    dtypes="float32",
    bad=[*_BAD, *_BAD_THRESHOLDS],
)
case(
    "NonMaxSuppressionV3",
    tf.image.non_max_suppression,
    _suppress,
    samples=[
        Args(_CORNERS, _SCORES, _MOST),
        Args(_CORNERS, _SCORES, np.array(100, np.int32), 0.1, 0.0),
        Args(_NANS, _SCORES, _MOST),
        Args(_CORNERS, _SCORES, np.array(2**31 - 1, np.int32), 1.0),
        Args(_CORNERS, np.full(30, np.nan, np.float32), _MOST),
    ],
    dtypes="float32",
    bad=[*_BAD, *_BAD_THRESHOLDS],
)


def _padded(b: Any, s: Any, m: Any, t: Any = 0.5, score: Any = -np.inf, pad_to_max_output_size: bool = False) -> Any:
    chosen = _suppress(b, s, m, t, score)
    size = m if pad_to_max_output_size else len(chosen)
    return np.pad(chosen, (0, size - len(chosen))), np.int32(len(chosen))


case(
    "NonMaxSuppressionV4",
    tf.image.non_max_suppression_padded,
    _padded,
    samples=[
        Args(_CORNERS, _SCORES, np.array(25, np.int32), 0.1, pad_to_max_output_size=True),
        Args(_CORNERS, _SCORES, np.array(25, np.int32), 0.1),
    ],
    dtypes="float32",
    bad=[*_BAD, *_BAD_THRESHOLDS],
)


def _soft(b: Any, s: Any, m: Any, t: Any = 0.5, score: Any = -np.inf, sigma: Any = 0.0) -> Any:
    """Rescores all that is left after each selection."""
    left = {i: np.float32(x) for i, x in enumerate(s) if x > score}
    chosen: list[int] = []
    scores: list[Any] = []
    while left and len(chosen) < m:
        best = max(left, key=lambda i: (left[i], -i))
        chosen.append(best)
        scores.append(left.pop(best))
        for i in list(left):
            shared = _overlap(b[i], b[best])
            if sigma > 0:
                left[i] = left[i] * np.float32(np.exp(-0.5 * shared**2 / sigma))
                if not left[i] > score:
                    del left[i]
            elif shared > t:
                del left[i]
    return np.array(chosen, np.int32), np.array(scores, np.float32)


_POSITIVE = _rng.permutation(30).astype(np.float32) / 30
case(
    "NonMaxSuppressionV5",
    tf.image.non_max_suppression_with_scores,
    _soft,
    samples=[
        Args(_CORNERS, _POSITIVE, np.array(25, np.int32), 1.0, 0.1, 0.5),
        Args(_CORNERS, _POSITIVE, np.array(25, np.int32), 0.5, 0.0, 0.3),
        Args(_CORNERS, _POSITIVE, np.array(9, np.int32), 0.2),
    ],
    dtypes="float32",
    bad=[
        *_BAD,
        *_BAD_THRESHOLDS,
        Bad(Args(_CORNERS, _SCORES, _MOST, 0.5, 0.0, np.array(-1, np.float32)), match="sigma"),
    ],
)
_OVERLAPS = _rng.uniform(0, 1, (12, 12)).astype(np.float32)
case(
    "NonMaxSuppressionWithOverlaps",
    tf.image.non_max_suppression_overlaps,
    lambda o, s, m, t=0.5, score=-np.inf: _suppress(None, s, m, t, score, o),
    samples=[Args(_OVERLAPS, _SCORES[:12], _MOST), Args(_OVERLAPS, _SCORES[:12], _MOST, 0.8, 0.2)],
    dtypes="float32",
    bad=[
        Bad(Args(_OVERLAPS[:5], _SCORES[:12], _MOST), match="square"),
        Bad(Args(_OVERLAPS, _SCORES[:5], _MOST), match="incompatible"),
        Bad(Args(_OVERLAPS, _SCORES[:12], np.array(-3, np.int32)), match="non-negative"),
    ],
)


def _combined(
    boxes: Any, scores: Any, per_class: Any, total: Any, t: Any = 0.5, score: Any = -np.inf,
    pad_per_class: bool = False, clip_boxes: bool = True,
) -> Any:  # fmt: skip
    size = min(int(total), int(per_class) * scores.shape[2]) if pad_per_class else int(total)
    batch = len(boxes)
    out = np.zeros((batch, size, 4), np.float32), np.zeros((batch, size)), np.zeros((batch, size)), np.zeros(batch, int)
    for b in range(batch):
        found = []
        for c in range(scores.shape[2]):
            of_class = boxes[b, :, c if boxes.shape[2] > 1 else 0]
            for i in _suppress(of_class, scores[b, :, c], int(per_class), t, score):
                found.append((-scores[b, i, c], c, i, of_class[i]))
        found.sort(key=lambda entry: entry[0])
        for k, (negative, c, _, box) in enumerate(found[:size]):
            out[0][b, k] = np.clip(box, 0, 1) if clip_boxes else box
            out[1][b, k], out[2][b, k] = -negative, c
        out[3][b] = min(size, len(found))
    return (*[x.astype(np.float32) for x in out[:3]], out[3].astype(np.int32))


def _i(x: int) -> np.ndarray:
    return np.array(x, np.int32)


_BATCH = _rng.uniform(-0.3, 1.3, (2, 9, 3, 4)).astype(np.float32)
_CLASSES = _rng.permutation(54).reshape(2, 9, 3).astype(np.float32) / 54
case(
    "CombinedNonMaxSuppression",
    tf.image.combined_non_max_suppression,
    _combined,
    samples=[
        Args(_BATCH, _CLASSES, _i(4), _i(10), 0.3),
        Args(_BATCH[:, :, :1], _CLASSES, _i(4), _i(50), 0.2, 0.3, pad_per_class=True, clip_boxes=False),
        Args(_BATCH[:0], _CLASSES[:0], _i(4), _i(5)),
    ],
    dtypes="float32",
    bad=[
        Bad(Args(_BATCH[:, :, :2], _CLASSES, _i(4), _i(10)), match="num_classes"),
        Bad(Args(_BATCH, _CLASSES[:1], _i(4), _i(10)), match="num_boxes"),
        Bad(Args(_BATCH, _CLASSES, _i(0), _i(10)), match="positive"),
        Bad(Args(_BATCH, _CLASSES, _i(4), _i(-10)), match="non-negative"),
        Bad(Args(_BATCH, _CLASSES, _i(4), _i(10), np.array(2, np.float32)), match="[0, 1]"),
        Bad(Args(_BATCH[0], _CLASSES, _i(4), _i(10)), match="num_boxes"),
    ],
)

_PALETTE = [(1, 1, 0, 1), (0, 0, 1, 1), (1, 0, 0, 1), (0, 1, 0, 1)]


def _draw(images: Any, boxes: Any, colors: Any = None) -> Any:
    out = images.copy()
    rows, columns, channels = images.shape[1:]
    for b in range(len(images)):
        for i, box in enumerate(boxes[b]):
            color = _PALETTE[i] if colors is None else colors[i % len(colors)]
            color = (1.0,) if channels == 1 and colors is None else color
            if np.isnan(box).any():
                continue
            t, s, d, r = (int(x) for x in np.clip(box * np.array([rows - 1, columns - 1] * 2), -1e9, 1e9))
            if t > d or s > r or t >= rows or d < 0 or s >= columns or r < 0:
                continue
            for y in range(max(t, 0), min(d, rows - 1) + 1):
                for x in range(max(s, 0), min(r, columns - 1) + 1):
                    if y in (t, d) or x in (s, r):
                        out[b, y, x] = color[:channels]
    return out


_DRAWN = np.array(
    [
        [[0.1, 0.2, 0.6, 0.9], [-0.5, 0.3, 0.4, 1.7], [0.9, 0.9, 0.1, 0.1]],
        [[0, 0, 1, 1], [0.5, 0.5, 0.5, 0.5], [3, 3, 4, 4]],
    ],
    np.float32,
)
_ODD = np.array([[[np.nan, 0, 1, np.nan], [np.nan] * 4, [1e30, 0, 1e38, 1]]] * 2, np.float32)
_BAD_DRAWN = [
    Bad(Args(real(2, 8, 9, 2), _DRAWN), match="Channel depth"),
    Bad(Args(real(2, 8, 9), _DRAWN), match="rank of the images"),
    Bad(Args(real(1, 8, 9, 3), _DRAWN), match="batch"),
    Bad(Args(real(2, 8, 9, 3), _DRAWN[:, :, :3]), match="num_boxes, 4"),
]
case(
    "DrawBoundingBoxes",
    tf.image.draw_bounding_boxes,
    _draw,
    samples=[
        Args(real(2, 8, 9, 3), _DRAWN),
        Args(real(2, 8, 9, 1), _DRAWN),
        Args(real(2, 5, 4, 4), _DRAWN),
        Args(real(2, 5, 4, 4), _ODD),
        Args(real(2, 0, 4, 3), _DRAWN),
        Args(real(2, 5, 4, 3), _DRAWN[:, :0]),
    ],
    dtypes="float32 float16",
    bad=_BAD_DRAWN,
)
_RED_AND_GREY = np.array([[0.5, 0.1, 0.2, 1], [0.3, 0.3, 0.3, 1]], np.float32)
case(
    "DrawBoundingBoxesV2",
    lambda images, boxes, colors=_RED_AND_GREY: tf.image.draw_bounding_boxes(images, boxes, colors=colors),
    _draw,
    samples=[Args(real(2, 8, 9, 3), _DRAWN, _RED_AND_GREY), Args(real(2, 8, 9, 4), _DRAWN, _RED_AND_GREY)],
    dtypes="float32",
    bad=[*_BAD_DRAWN, Bad(Args(real(2, 8, 9, 3), _DRAWN, _RED_AND_GREY[:, :2]), match="columns")],
)

_WHOLE = np.array([[[0.1, 0.1, 0.9, 0.9]]], np.float32)
_BAD_SAMPLES = [
    Bad(Args(np.array([40, 50], np.int32), _WHOLE), match="height, width, channels"),
    Bad(Args(np.array([0, 50, 3], np.int32), _WHOLE), match="positive"),
    Bad(Args(np.array([-4, 50, 3], np.int32), _WHOLE), match="positive"),
    Bad(Args(np.array([40, 50, 3], np.int32), _WHOLE * 2), match="[0.0, 1.0]"),
    Bad(Args(np.array([40, 50, 3], np.int32), _WHOLE * np.float32(np.nan)), match="[0.0, 1.0]"),
    Bad(Args(np.array([40, 50, 3], np.int32), _WHOLE[:, :, ::-1]), match="less than"),
    Bad(Args(np.array([40, 50, 3], np.int32), _WHOLE[:, :0]), match="No bounding boxes"),
    Bad(Args(np.array([40, 50, 3], np.int32), _WHOLE[0]), match="num_boxes, 4"),
    Bad(Args(np.array([40, 50, 3], np.int32), _WHOLE, aspect_ratio_range=[-1.0, 1.0]), match="aspect_ratio_range"),
    Bad(Args(np.array([40, 50, 3], np.int32), _WHOLE, area_range=[0.5, 1.5]), match="area_range"),
    Bad(Args(np.array([40, 50, 3], np.int32), _WHOLE, max_attempts=0), match="max_attempts"),
]
_SAMPLED = [
    Args(np.array([40, 50, 3], np.int32), _WHOLE),
    Args(np.array([1, 1, 3], np.int64), _WHOLE),
    Args(np.array([40, 50, 3], np.int32), _WHOLE[:, :0], use_image_if_no_bounding_boxes=True),
    Args(np.array([2**31 - 1, 2**31 - 1, 3], np.int32), _WHOLE, max_attempts=3),
]
case(
    "SampleDistortedBoundingBox",
    lambda size, boxes, **kw: tuple(tf.raw_ops.SampleDistortedBoundingBox(image_size=size, bounding_boxes=boxes, **kw)),
    None,
    samples=_SAMPLED,
    dtypes="float32",
    bad=_BAD_SAMPLES,
)
case(
    "SampleDistortedBoundingBoxV2",
    lambda size, boxes, **kw: tuple(tf.image.sample_distorted_bounding_box(size, boxes, **kw)),
    None,
    samples=_SAMPLED,
    dtypes="float32",
    bad=[
        *_BAD_SAMPLES,
        Bad(Args(np.array([40, 50, 3], np.int32), _WHOLE, min_object_covered=1.5), match="min_object_covered"),
    ],
)


def _glimpse(version: int) -> Any:
    def glimpse(images: Any, size: Any, offsets: Any, centered: bool = True, normalized: bool = True) -> Any:
        out = np.zeros((len(images), size[0], size[1], images.shape[3]), np.float32)
        for b in range(len(images)):
            start = []
            for offset, whole, window in zip(offsets[b], images.shape[1:3], size, strict=True):
                at = offset * whole if normalized else offset
                if version == 1 or (centered and normalized):
                    at = (at / 2 + whole / 2 if centered else at) - window / 2
                else:
                    at = at + whole / 2 if centered else at
                start.append(int(at) if np.isfinite(at) else 10**6)
            for y in range(size[0]):
                for x in range(size[1]):
                    p, q = y + start[0], x + start[1]
                    if 0 <= p < images.shape[1] and 0 <= q < images.shape[2]:
                        out[b, y, x] = images[b, p, q]
        return out

    return glimpse


_OFFSETS = np.array([[0.3, -0.5], [0.0, 1.4]], np.float32)
_WINDOW = np.array([3, 4], np.int32)
for _version, _op in ((1, "ExtractGlimpse"), (2, "ExtractGlimpseV2")):
    case(
        _op,
        lambda images, size, offsets, op=_op, **kw: getattr(tf.raw_ops, op)(
            input=images, size=size, offsets=offsets, uniform_noise=False, noise="zero", **kw
        ),
        _glimpse(_version),
        samples=[
            *[
                Args(real(2, 6, 7, 2), _WINDOW, _OFFSETS, centered=centered, normalized=normalized)
                for centered in (True, False)
                for normalized in (True, False)
            ],
            Args(real(2, 6, 7, 2), _WINDOW, np.array([[np.nan, 0], [np.inf, 0]], np.float32)),
            Args(real(0, 6, 7, 2), _WINDOW, _OFFSETS[:0]),
        ],
        dtypes="float32",
        bad=[
            Bad(Args(real(2, 6, 7), _WINDOW, _OFFSETS), match="4-D"),
            Bad(Args(real(2, 6, 7, 2), np.array([0, 3], np.int32), _OFFSETS), match="positive"),
            Bad(Args(real(2, 6, 7, 2), _WINDOW, _OFFSETS[:1]), match="offsets"),
        ],
    )

covered_elsewhere(
    "files, not arrays: tests/ops/test_image_codecs.py",
    "DecodeJpeg", "DecodeAndCropJpeg", "DecodePng", "DecodeGif", "DecodeBmp", "DecodeImage", "ExtractJpegShape",
    "EncodeJpeg", "EncodeJpegVariableQuality", "EncodePng",
)  # fmt: skip
