"""The digits that the package ships, and the reader of the full set's files."""

import gzip
import struct

import numpy as np
import pytest

from thalweg.datasets import mnist


def write_idx(path, array):
    data = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def test_the_sample_has_ten_thousand_digits_of_every_class():
    digits = mnist.load()
    assert digits.train_images.shape == (10000, 28, 28) and digits.test_images.shape == (2000, 28, 28)
    assert all(array.dtype == np.uint8 for array in digits)
    assert np.bincount(digits.train_labels).min() > 800 and np.bincount(digits.test_labels).min() > 150
    assert len(np.unique(digits.train_labels)) == 10
    assert 30 < digits.train_images.mean() < 37 and digits.train_images.max() == 255
    assert (digits.train_images.reshape(10000, -1).max(axis=1) > 100).all()


def test_the_sample_s_labels_belong_to_its_images():
    digits = mnist.load()
    scaled = digits.train_images.reshape(10000, -1) / 255.0
    means = np.stack([scaled[digits.train_labels == digit].mean(axis=0) for digit in range(10)])
    tests = digits.test_images.reshape(2000, -1) / 255.0
    nearest = ((tests[:, None, :] - means[None]) ** 2).sum(axis=-1).argmin(axis=1)
    assert (nearest == digits.test_labels).mean() > 0.78


def test_source_and_licence_lie_beside_the_sample():
    text = mnist.SAMPLE.with_suffix(".README.md").read_text()
    assert "CC BY-SA 3.0" in text and "LeCun" in text
    assert mnist.SAMPLE.stat().st_size < 3_000_000


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_folder_with_the_full_set_is_read(tmp_path, suffix):
    full = mnist.load()
    for name, file in mnist._FILES.items():
        write_idx(tmp_path / (file + suffix), getattr(full, name)[:100])
    for got, expected in zip(mnist.load(tmp_path), full, strict=True):
        np.testing.assert_array_equal(got, expected[:100])


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"train-images-idx3-ubyte\.gz"):
        mnist.load(tmp_path)


@pytest.mark.parametrize(
    "data", [b"", b"\0\0\x08", b"PNG\0", b"\0\0\x0d\1\0\0\0\0", b"\0\0\x08\3\0\0\0\1", b"\0\0\x08\1\0\0\0\5abc"]
)
def test_a_file_that_is_not_idx_is_refused(tmp_path, data):
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(data)
    with pytest.raises(ValueError, match="train-images"):
        mnist.read_idx(path)


def test_files_that_do_not_belong_together_are_refused(tmp_path):
    full = mnist.load()
    for name, file in mnist._FILES.items():
        write_idx(tmp_path / file, getattr(full, name)[: 50 if "labels" in name else 100])
    with pytest.raises(ValueError, match="do not belong together"):
        mnist.load(tmp_path)


def test_rows_are_floats_from_paper_to_ink():
    images = np.array([[[0, 51], [255, 0]], [[255, 255], [0, 0]]], np.uint8)
    rows = mnist.as_rows(images)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, [[0, 0.2, 1, 0], [1, 1, 0, 0]], rtol=1e-6)
