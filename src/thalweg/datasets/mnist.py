"""MNIST, the handwritten digits: the sample that the package ships, or the full set from its IDX files."""

import gzip
import math
import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

SAMPLE = Path(__file__).with_name("mnist_sample.npz")
_FILES = {
    "train_images": "train-images-idx3-ubyte",
    "train_labels": "train-labels-idx1-ubyte",
    "test_images": "t10k-images-idx3-ubyte",
    "test_labels": "t10k-labels-idx1-ubyte",
}
_IDX_UINT8 = 8


class Mnist(NamedTuple):
    """Images are uint8 of shape [n, 28, 28], 0 for paper and 255 for ink; labels are uint8 of shape [n], 0 to 9."""

    train_images: npt.NDArray[np.uint8]
    train_labels: npt.NDArray[np.uint8]
    test_images: npt.NDArray[np.uint8]
    test_labels: npt.NDArray[np.uint8]


def load(folder: str | Path | None = None) -> Mnist:
    """Loads the digits.

    Args:
        folder: A folder with the four IDX files of the full set (60,000 and 10,000 images), gzipped or not. Without
            one, the sample of the package is loaded: 10,000 images to train and 2,000 to test.

    Returns:
        The four arrays.

    Raises:
        FileNotFoundError: A file of the full set is missing.
        ValueError: A file is not a valid IDX file of the expected shape.

    Example:
        >>> from thalweg.datasets import mnist
        >>> digits = mnist.load()
        >>> digits.train_images.shape, digits.test_labels.shape
        ((10000, 28, 28), (2000,))
    """
    if folder is None:
        with np.load(SAMPLE) as arrays:
            return Mnist(**{name: arrays[name] for name in Mnist._fields})
    digits = Mnist(**{name: read_idx(_find(Path(folder), _FILES[name])) for name in Mnist._fields})
    for images, labels in (digits[:2], digits[2:]):
        if images.shape[1:] != (28, 28) or labels.shape != images.shape[:1]:
            raise ValueError(
                f"{folder} holds images of shape {images.shape} with labels of shape {labels.shape}; "
                "expected [n, 28, 28] and [n]: it is not MNIST, or its files do not belong together"
            )
    return digits


def as_rows(images: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """Makes rows of 784 floats from 0 (paper) to 1 (ink) of images: what a network takes.

    Example:
        >>> from thalweg.datasets import mnist
        >>> rows = mnist.as_rows(mnist.load().test_images)
        >>> rows.shape, rows.dtype, float(rows.max())
        ((2000, 784), dtype('float32'), 1.0)
    """
    return images.reshape(len(images), -1).astype(np.float32) / np.float32(255.0)


def read_idx(path: Path) -> npt.NDArray[np.uint8]:
    """Reads an IDX file of bytes: two zeros, the element type, the rank, the dimensions (big-endian), the elements."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] != _IDX_UINT8:
        raise ValueError(f"{path} is not an IDX file of bytes: it begins with {data[:4]!r}")
    start = 4 + 4 * data[3]
    if len(data) < start:
        raise ValueError(f"{path} ends inside its header")
    shape = struct.unpack(f">{data[3]}I", data[4:start])
    if len(data) - start != math.prod(shape):
        raise ValueError(f"{path} announces {math.prod(shape)} elements, shape {shape}, and holds {len(data) - start}")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape).copy()


def _find(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.exists():
            return path
    raise FileNotFoundError(f"{folder} has neither {name} nor {name}.gz")
