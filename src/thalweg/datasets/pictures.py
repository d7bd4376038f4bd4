"""Pictures of results: images laid out as tiles, curves, and PNG files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt


def tiles(images: npt.NDArray[Any], columns: int, gap: int = 1) -> npt.NDArray[Any]:
    """Lays images out in rows, as one image.

    Args:
        images: An array [n, height, width] or [n, height, width, channels].
        columns: Images in a row; the last row is filled up with zeros.
        gap: Pixels between two images, zeros as well.

    Returns:
        One image, of the same element type.

    Example:
        >>> import numpy as np
        >>> from thalweg.datasets import pictures
        >>> pictures.tiles(np.ones([5, 28, 28]), columns=3).shape
        (57, 86)
    """
    if images.ndim not in (3, 4) or columns < 1 or gap < 0:
        raise ValueError(
            f"Tiles take images of shape [n, height, width] or [n, height, width, channels], columns > 0 and gap >= 0; "
            f"not shape {images.shape}, columns {columns} and gap {gap}"
        )
    count, height, width, *channels = images.shape
    rows = -(-count // columns)
    sheet = np.zeros([rows * (height + gap), columns * (width + gap), *channels], images.dtype)
    for i, image in enumerate(images):
        top, left = i // columns * (height + gap), i % columns * (width + gap)
        sheet[top : top + height, left : left + width] = image
    return sheet[: max(0, len(sheet) - gap), : max(0, sheet.shape[1] - gap)]


def write_png(path: str | Path, image: npt.ArrayLike) -> None:
    """Writes an image [height, width] or [height, width, 3], of bytes or of floats, which are clipped to [0, 1]."""
    from PIL import Image  # Start-up time: PIL is slow to import.

    pixels = np.asarray(image)
    if pixels.dtype != np.uint8:
        pixels = np.rint(np.clip(np.nan_to_num(pixels), 0.0, 1.0) * 255.0).astype(np.uint8)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, "PNG")


def curve(values: Sequence[float], title: str, first_step: int = 1, size: tuple[int, int] = (640, 320)) -> Any:
    """Draws one value a step, pale, and its running mean over a twentieth of the steps.

    Args:
        values: One number for each step; those that are not finite are left out.
        title: What they are.
        first_step: The step of the first of them.
        size: Width and height in pixels.

    Returns:
        An image [height, width, 3] of bytes.

    Raises:
        ValueError: If there are fewer than two finite values.

    Example:
        >>> from thalweg.datasets import pictures
        >>> pictures.curve([3.0, 2.0, 1.5], "loss").shape
        (320, 640, 3)
    """
    from PIL import Image, ImageDraw  # Start-up time: PIL is slow to import.

    numbers = np.asarray(values, np.float64)
    steps = np.flatnonzero(np.isfinite(numbers))
    if len(steps) < 2:
        raise ValueError(f"A curve takes at least two finite values, not {len(steps)} of {len(numbers)}")
    numbers = numbers[steps]
    low, high = float(numbers.min()), float(numbers.max())
    high = high if high > low else low + 1.0
    width, height = size
    left, top, right, bottom = 56, 28, width - 12, height - 28
    window = max(1, len(numbers) // 20)
    padded = np.concatenate([np.zeros(1), np.cumsum(numbers)])
    begin = np.maximum(np.arange(1, len(padded)) - window, 0)
    mean = (padded[1:] - padded[begin]) / (np.arange(1, len(padded)) - begin)

    def points(heights: npt.NDArray[Any]) -> list[tuple[float, float]]:
        across = left + (steps - steps[0]) / (steps[-1] - steps[0]) * (right - left)
        return list(
            zip(across.tolist(), (bottom - (heights - low) / (high - low) * (bottom - top)).tolist(), strict=True)
        )

    sheet = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(sheet)
    for part in range(5):
        value = low + (high - low) * part / 4
        level = bottom - (bottom - top) * part / 4
        draw.line([(left, level), (right, level)], fill="#dddddd")
        draw.text((6, level - 6), f"{value:.3g}", fill="#555555")
    draw.line(points(numbers), fill="#b8d0ea", width=1)
    draw.line(points(mean), fill="#1f5fa8", width=2)
    draw.text((left, 8), title, fill="black")
    draw.text((left, bottom + 8), f"step {first_step + int(steps[0])}", fill="#555555")
    last = f"{first_step + int(steps[-1])}"
    draw.text((right - draw.textlength(last), bottom + 8), last, fill="#555555")
    return np.asarray(sheet)
