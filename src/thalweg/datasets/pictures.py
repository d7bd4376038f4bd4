"""Pictures of results: images laid out as tiles, and PNG files."""

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
