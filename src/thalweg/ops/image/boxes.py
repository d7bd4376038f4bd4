"""Boxes in images: crop_and_resize, non-maximum suppression, drawing, random crops around boxes, and glimpses."""

from __future__ import annotations

from typing import Any

from thalweg.graph import dtypes
from thalweg.graph.apply import apply, apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import get_seed, name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, gradient, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.op_effects import Effect
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.image.shapes import target_sizes
from thalweg.ops.math.casting import cast

_PIXELS = "{uint8, uint16, int8, int16, int32, int64, half, float, double}"
_SCORES = "T: {half, float} = float"
_THRESHOLDS = f"{_SCORES}, T_threshold: {{half, float}} = float"


def _crops_shape(c: ShapeContext) -> TensorShape:
    image = shapes.with_rank(c.input(0), 4).dims_tuple
    assert image is not None
    return TensorShape._of((_num_boxes(c, 1), *target_sizes(c, 3), image[3]))


def _num_boxes(c: ShapeContext, index: int) -> int | None:
    """How many boxes: those of input `index`, and the entries of the one after it."""
    boxes = shapes.merge(c.input(index), TensorShape._of((None, 4))).dims_tuple
    rows = shapes.with_rank(c.input(index + 1), 1).dims_tuple
    assert boxes is not None and rows is not None
    return shapes.merge_dims(boxes[0], rows[0])


def _image_gradient_shape(c: ShapeContext) -> TensorShape:
    _num_boxes(c, 1)
    return shapes.merge(c.constant_as_shape(3), TensorShape._of((None,) * 4))


def _boxes_gradient_shape(c: ShapeContext) -> TensorShape:
    return TensorShape._of((_num_boxes(c, 2), 4))


define(
    "CropAndResize",
    "image: T, boxes: float, box_ind: int32, crop_size: int32 -> crops: float",
    f"T: {_PIXELS}, method: {{'bilinear', 'nearest'}} = 'bilinear', extrapolation_value: float = 0.0",
    shape=_crops_shape,
)
define(
    "CropAndResizeGradImage",
    "grads: float, boxes: float, box_ind: int32, image_size: int32 -> output: T",
    "T: {float, half, double}, method: {'bilinear', 'nearest'} = 'bilinear'",
    shape=_image_gradient_shape,
)
define(
    "CropAndResizeGradBoxes",
    "grads: float, image: T, boxes: float, box_ind: int32 -> output: float",
    f"T: {_PIXELS}, method: {{'bilinear'}} = 'bilinear'",
    shape=_boxes_gradient_shape,
)
not_differentiable("CropAndResizeGradBoxes")


@export("image.crop_and_resize")
def crop_and_resize(
    image: Any,
    boxes: Any,
    box_ind: Any = None,
    crop_size: Any = None,
    method: str = "bilinear",
    extrapolation_value: float = 0,
    name: str | None = None,
    box_indices: Any = None,
) -> Tensor:
    """Cuts boxes out of images and resizes them to one size.

    Args:
        image: `[batch, height, width, channels]`.
        boxes: `[num_boxes, 4]`: y1, x1, y2, x2, where 0 is the first row or column and 1 the last.
        box_ind: For each box, which image to cut it out of.
        crop_size: The height and width of the results.
        method: 'bilinear' or 'nearest'.
        extrapolation_value: What stands for pixels outside of the image.
        name: The node's name.
        box_indices: Another name of `box_ind`.

    Returns:
        A float32 tensor `[num_boxes, crop height, crop width, channels]`.
    """
    indices = box_indices if box_ind is None else box_ind
    return apply_one(
        "CropAndResize", image, boxes, indices, crop_size,
        method=method, extrapolation_value=extrapolation_value, name=name,
    )  # fmt: skip


@gradient("CropAndResize")
def _crop_and_resize_grad(op: Operation, grad: Tensor) -> Any:
    image, boxes, indices, _ = op.inputs
    by_image = by_boxes = None
    method = op.attrs["method"]
    if image.dtype.is_floating:
        by_image = apply_one(
            "CropAndResizeGradImage", grad, boxes, indices, apply_one("Shape", image), T=image.dtype, method=method
        )
        by_image.set_shape(image.shape)
    if method in ("bilinear", b"bilinear"):
        by_boxes = apply_one("CropAndResizeGradBoxes", grad, image, boxes, indices)
    return by_image, by_boxes, None, None


@gradient("CropAndResizeGradImage")
def _crop_and_resize_grad_image_grad(op: Operation, grad: Tensor) -> Any:
    """The op is linear in the gradients: cutting the same boxes out of `grad` is its transpose."""
    grads, boxes, indices, _ = op.inputs
    size = apply_one("StridedSlice", apply_one("Shape", grads), [1], [3], [1])
    by_grads = apply_one("CropAndResize", grad, boxes, indices, size, method=op.attrs["method"])
    by_boxes = None
    if op.attrs["method"] in ("bilinear", b"bilinear"):
        by_boxes = apply_one("CropAndResizeGradBoxes", grads, grad, boxes, indices)
    return by_grads, by_boxes, None, None


def _selected_shape(c: ShapeContext) -> Any:
    _num_boxes(c, 0)
    for i in range(2, c.num_inputs):
        shapes.with_rank(c.input(i), 0)
    count = None
    if c.num_outputs > 1 and c.attr("pad_to_max_output_size"):
        known = c.constant(2)
        count = None if known is None else int(known)
        if count is not None and count < 0:
            raise ValueError(f"max_output_size must be non-negative, got {count}")
    each = [TensorShape._of((count,))] * c.num_outputs
    return [*each[:-1], shapes.SCALAR] if c.num_outputs > 1 else each


def _overlaps_shape(c: ShapeContext) -> TensorShape:
    overlaps = shapes.with_rank(c.input(0), 2).dims_tuple
    scores = shapes.with_rank(c.input(1), 1).dims_tuple
    assert overlaps is not None and scores is not None
    shapes.merge_dims(shapes.merge_dims(overlaps[0], overlaps[1]), scores[0])
    for i in range(2, c.num_inputs):
        shapes.with_rank(c.input(i), 0)
    return shapes.ANY_VECTOR


def _combined_shape(c: ShapeContext) -> list[TensorShape]:
    boxes, scores = shapes.with_rank(c.input(0), 4).dims_tuple, shapes.with_rank(c.input(1), 3).dims_tuple
    assert boxes is not None and scores is not None
    batch = shapes.merge_dims(boxes[0], scores[0])
    shapes.merge_dims(boxes[1], scores[1])
    shapes.merge_dims(boxes[3], 4)
    if boxes[2] not in (None, 1):
        shapes.merge_dims(boxes[2], scores[2])
    for i in range(2, 6):
        shapes.with_rank(c.input(i), 0)
    total, per_class = c.constant(3), c.constant(2)
    size = None if total is None else int(total)
    if size is not None and c.attr("pad_per_class"):
        size = None if per_class is None or scores[2] is None else min(size, int(per_class) * scores[2])
    if size is not None and size < 0:
        raise ValueError(f"max_total_size must be positive, got {size}")
    one = TensorShape._of((batch, size))
    return [TensorShape._of((batch, size, 4)), one, one, TensorShape._of((batch,))]


_BOXES = "boxes: T, scores: T, max_output_size: int32"
define(
    "NonMaxSuppression",
    "boxes: float, scores: float, max_output_size: int32 -> selected_indices: int32",
    "iou_threshold: float = 0.5",
    shape=_selected_shape,
)
define(
    "NonMaxSuppressionV2", f"{_BOXES}, iou_threshold: T_threshold -> selected_indices: int32", _THRESHOLDS,
    shape=_selected_shape,
)  # fmt: skip
define(
    "NonMaxSuppressionV3",
    f"{_BOXES}, iou_threshold: T_threshold, score_threshold: T_threshold -> selected_indices: int32",
    _THRESHOLDS,
    shape=_selected_shape,
)
define(
    "NonMaxSuppressionV4",
    f"{_BOXES}, iou_threshold: T_threshold, score_threshold: T_threshold -> "
    "selected_indices: int32, valid_outputs: int32",
    f"{_THRESHOLDS}, pad_to_max_output_size: bool = false",
    shape=_selected_shape,
)
define(
    "NonMaxSuppressionV5",
    f"{_BOXES}, iou_threshold: T, score_threshold: T, soft_nms_sigma: T -> "
    "selected_indices: int32, selected_scores: T, valid_outputs: int32",
    f"{_SCORES}, pad_to_max_output_size: bool = false",
    shape=_selected_shape,
)
define(
    "NonMaxSuppressionWithOverlaps",
    "overlaps: float, scores: float, max_output_size: int32, overlap_threshold: float, score_threshold: float -> "
    "selected_indices: int32",
    shape=_overlaps_shape,
)
define(
    "CombinedNonMaxSuppression",
    "boxes: float, scores: float, max_output_size_per_class: int32, max_total_size: int32, iou_threshold: float, "
    "score_threshold: float -> nmsed_boxes: float, nmsed_scores: float, nmsed_classes: float, "
    "valid_detections: int32",
    "pad_per_class: bool = false, clip_boxes: bool = true",
    shape=_combined_shape,
)
not_differentiable(
    "NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3", "NonMaxSuppressionV4", "NonMaxSuppressionV5",
    "NonMaxSuppressionWithOverlaps", "CombinedNonMaxSuppression",
)  # fmt: skip


def _thresholds(*values: Any) -> list[Tensor]:
    return [convert_to_tensor(value, dtype=dtypes.float32) for value in values]


@export("image.non_max_suppression")
def non_max_suppression(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    name: str | None = None,
) -> Tensor:
    """Selects the best boxes, without those that overlap a better one.

    Args:
        boxes: `[num_boxes, 4]`: two opposite corners y1, x1, y2, x2.
        scores: One per box.
        max_output_size: How many boxes to select at most.
        iou_threshold: A box whose intersection over union with a selected one exceeds this is dropped.
        score_threshold: Boxes must score more than this.
        name: The name scope.

    Returns:
        The indices of the selected boxes, best first.
    """
    with name_scope(name, "non_max_suppression"):
        return apply_one(
            "NonMaxSuppressionV3", boxes, scores, max_output_size, *_thresholds(iou_threshold, score_threshold)
        )


@export("image.non_max_suppression_with_scores")
def non_max_suppression_with_scores(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    soft_nms_sigma: Any = 0.0,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """As `non_max_suppression`; with `soft_nms_sigma > 0` overlaps lower scores, and `iou_threshold` has no effect.

    Returns:
        The indices of the selected boxes, and their (lowered) scores.
    """
    with name_scope(name, "non_max_suppression_with_scores"):
        selected = apply(
            "NonMaxSuppressionV5", boxes, scores, max_output_size,
            *_thresholds(iou_threshold, score_threshold, soft_nms_sigma),
        )  # fmt: skip
        return selected[0], selected[1]


@export("image.non_max_suppression_padded")
def non_max_suppression_padded(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    pad_to_max_output_size: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """As `non_max_suppression`, with the indices padded by zeros to `max_output_size` on request.

    Returns:
        The indices of the selected boxes, and how many of them are valid.
    """
    with name_scope(name, "non_max_suppression_padded"):
        selected = apply(
            "NonMaxSuppressionV4", boxes, scores, max_output_size, *_thresholds(iou_threshold, score_threshold),
            pad_to_max_output_size=pad_to_max_output_size,
        )  # fmt: skip
        return selected[0], selected[1]


@export("image.non_max_suppression_overlaps")
def non_max_suppression_overlaps(
    overlaps: Any,
    scores: Any,
    max_output_size: Any,
    overlap_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    name: str | None = None,
) -> Tensor:
    """As `non_max_suppression`, with a matrix of overlaps in the place of boxes."""
    with name_scope(name, "non_max_suppression_overlaps"):
        return apply_one(
            "NonMaxSuppressionWithOverlaps", overlaps, scores, max_output_size,
            *_thresholds(overlap_threshold, score_threshold),
        )  # fmt: skip


@export("image.combined_non_max_suppression")
def combined_non_max_suppression(
    boxes: Any,
    scores: Any,
    max_output_size_per_class: Any,
    max_total_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    pad_per_class: bool = False,
    clip_boxes: bool = True,
    name: str | None = None,
) -> Any:
    """Selects the best boxes of every class in every image of a batch.

    Args:
        boxes: `[batch, num_boxes, q, 4]`, where q is 1 (the boxes serve all classes) or the number of classes.
        scores: `[batch, num_boxes, num_classes]`.
        max_output_size_per_class: How many boxes to select per class, at most.
        max_total_size: How many to select per image, at most.
        iou_threshold: A box that overlaps a better one of its class by more is dropped.
        score_threshold: Boxes must score more than this.
        pad_per_class: Whether the results have at most `max_output_size_per_class` entries per class.
        clip_boxes: Whether boxes are limited to [0, 1].
        name: The name scope.

    Returns:
        The boxes, scores and classes of the selection, padded with zeros, and how many are valid in each image.
    """
    with name_scope(name, "combined_non_max_suppression"):
        return apply(
            "CombinedNonMaxSuppression", boxes, scores, max_output_size_per_class, max_total_size,
            *_thresholds(iou_threshold, score_threshold), pad_per_class=pad_per_class, clip_boxes=clip_boxes,
        )  # fmt: skip


def _drawn_shape(c: ShapeContext) -> TensorShape:
    shapes.with_rank(c.input(1), 3)
    return shapes.with_rank(c.input(0), 4)


_IMAGES = "T: {float, half} = float"
define("DrawBoundingBoxes", "images: T, boxes: float -> output: T", _IMAGES, shape=_drawn_shape)
define("DrawBoundingBoxesV2", "images: T, boxes: float, colors: float -> output: T", _IMAGES, shape=_drawn_shape)
not_differentiable("DrawBoundingBoxes", "DrawBoundingBoxesV2")


@export("image.draw_bounding_boxes")
def draw_bounding_boxes(images: Any, boxes: Any, name: str | None = None, colors: Any = None) -> Tensor:
    """Draws boxes into images.

    Args:
        images: `[batch, height, width, channels]` of float, with 1, 3 or 4 channels.
        boxes: `[batch, num_boxes, 4]`: y_min, x_min, y_max, x_max in [0, 1].
        name: The node's name.
        colors: A matrix of colours to go through; ten of them by default.

    Returns:
        The images with the boxes' edges painted.
    """
    if colors is None:
        return apply_one("DrawBoundingBoxes", images, boxes, name=name)
    return apply_one("DrawBoundingBoxesV2", images, boxes, colors, name=name)


def _sampled_shape(c: ShapeContext) -> list[TensorShape]:
    shapes.merge(c.input(0), TensorShape._of((3,)))
    shapes.with_rank(c.input(1), 3)
    if c.num_inputs == 3:
        shapes.with_rank(c.input(2), 0)
    return [TensorShape._of((3,)), TensorShape._of((3,)), TensorShape._of((1, 1, 4))]


_SAMPLED = "begin: T, size: T, bboxes: float"
_SEEDS = "T: {uint8, int8, int16, int32, int64}, seed: int = 0, seed2: int = 0"
_RANGES = (
    "aspect_ratio_range: list(float) = [0.75, 1.33], area_range: list(float) = [0.05, 1.0], max_attempts: int = 100, "
    "use_image_if_no_bounding_boxes: bool = false"
)
define(
    "SampleDistortedBoundingBox",
    f"image_size: T, bounding_boxes: float -> {_SAMPLED}",
    f"{_SEEDS}, min_object_covered: float = 0.1, {_RANGES}",
    shape=_sampled_shape,
    effect=Effect.RANDOM,
)
define(
    "SampleDistortedBoundingBoxV2",
    f"image_size: T, bounding_boxes: float, min_object_covered: float -> {_SAMPLED}",
    f"{_SEEDS}, {_RANGES}",
    shape=_sampled_shape,
    effect=Effect.RANDOM,
)
not_differentiable("SampleDistortedBoundingBox", "SampleDistortedBoundingBoxV2")


@export("image.sample_distorted_bounding_box")
def sample_distorted_bounding_box(
    image_size: Any,
    bounding_boxes: Any,
    seed: int | None = None,
    seed2: int | None = None,
    min_object_covered: Any = 0.1,
    aspect_ratio_range: Any = None,
    area_range: Any = None,
    max_attempts: int | None = None,
    use_image_if_no_bounding_boxes: bool | None = None,
    name: str | None = None,
) -> Any:
    """Picks a random rectangle of an image that covers enough of one of its boxes.

    Args:
        image_size: Height, width and channels: three integers.
        bounding_boxes: `[batch, num_boxes, 4]`: y_min, x_min, y_max, x_max in [0, 1].
        seed: Seed of this op; see `tf.set_random_seed`.
        seed2: A second seed.
        min_object_covered: Which part of a box the rectangle must cover.
        aspect_ratio_range: Width divided by height, from and to; [0.75, 1.33] by default.
        area_range: The rectangle's part of the image, from and to; [0.05, 1] by default.
        max_attempts: After so many the whole image is returned; 100 by default.
        use_image_if_no_bounding_boxes: Whether no boxes at all stand for one around the image.
        name: The name scope.

    Returns:
        begin and size for `tf.slice`, and the rectangle as a box `[1, 1, 4]` for `draw_bounding_boxes`.
    """
    with name_scope(name, "sample_distorted_bounding_box"):
        # TensorFlow hands these two seeds on as they are; without them the graph's seed decides.
        seeds = get_seed(None) if seed is None and seed2 is None else (seed, seed2)
        return apply(
            "SampleDistortedBoundingBoxV2", image_size, bounding_boxes, *_thresholds(min_object_covered),
            seed=seeds[0] or 0, seed2=seeds[1] or 0,
            aspect_ratio_range=list(aspect_ratio_range or (0.75, 1.33)), area_range=list(area_range or (0.05, 1.0)),
            max_attempts=100 if max_attempts is None else max_attempts,
            use_image_if_no_bounding_boxes=bool(use_image_if_no_bounding_boxes),
        )  # fmt: skip


def _glimpse_shape(c: ShapeContext) -> TensorShape:
    image = shapes.with_rank(c.input(0), 4).dims_tuple
    offsets = shapes.merge(c.input(2), TensorShape._of((None, 2))).dims_tuple
    assert image is not None and offsets is not None
    return TensorShape._of((shapes.merge_dims(image[0], offsets[0]), *target_sizes(c, 1), image[3]))


for _op in ("ExtractGlimpse", "ExtractGlimpseV2"):
    define(
        _op, "input: float, size: int32, offsets: float -> glimpse: float",
        "centered: bool = true, normalized: bool = true, uniform_noise: bool = true, noise: string = 'uniform'",
        shape=_glimpse_shape,
    )  # fmt: skip
not_differentiable("ExtractGlimpse", "ExtractGlimpseV2")


@export("image.extract_glimpse")
def extract_glimpse(
    input: Any,
    size: Any,
    offsets: Any,
    centered: bool = True,
    normalized: bool = True,
    uniform_noise: bool = True,
    name: str | None = None,
) -> Tensor:
    """Cuts a window out of each image; pixels outside of the image are noise.

    Args:
        input: `[batch, height, width, channels]` of float32.
        size: The height and width of the window.
        offsets: `[batch, 2]`: y and x of the window's centre.
        centered: Whether (0, 0) is the centre of the image; else its upper left corner.
        normalized: Whether offsets are parts of the image's size; else pixels.
        uniform_noise: Whether the noise is uniform over the range of the images; else normal.
        name: The node's name.

    Returns:
        A Tensor `[batch, height of the window, width of the window, channels]`.
    """
    return apply_one(
        "ExtractGlimpse", input, size, cast(offsets, dtypes.float32),
        centered=centered, normalized=normalized, uniform_noise=uniform_noise, name=name,
    )  # fmt: skip
