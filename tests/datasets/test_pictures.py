"""Images laid out as tiles, and PNG files that an image reader reads."""

import numpy as np
import pytest
from PIL import Image

from thalweg.datasets import pictures


def test_tiles_are_laid_out_in_rows():
    images = np.arange(1, 6)[:, None, None] * np.ones([1, 2, 3], np.int64)
    sheet = pictures.tiles(images, columns=2, gap=1)
    assert sheet.shape == (8, 7) and sheet.dtype == images.dtype
    assert np.array_equal(sheet[::3, 0], [1, 3, 5]) and np.array_equal(sheet[::3, 4], [2, 4, 0])
    assert not sheet[2].any() and not sheet[:, 3].any()


def test_tiles_keep_channels():
    assert pictures.tiles(np.zeros([4, 5, 6, 3]), columns=4, gap=0).shape == (5, 24, 3)
    assert pictures.tiles(np.zeros([0, 5, 6]), columns=4).shape[0] == 0


@pytest.mark.parametrize(("shape", "columns"), [((4, 5), 2), ((4, 5, 6), 0)])
def test_tiles_refuse_what_is_no_list_of_images(shape, columns):
    with pytest.raises(ValueError, match="Tiles take images"):
        pictures.tiles(np.zeros(shape), columns)


def test_floats_become_bytes_and_what_is_outside_is_cut_off(tmp_path):
    path = tmp_path / "new" / "picture.png"
    pictures.write_png(path, [[-1.0, 0.0, 0.5], [1.0, 7.0, np.nan]])
    with Image.open(path) as image:
        assert image.format == "PNG" and np.array_equal(np.asarray(image), [[0, 0, 128], [255, 255, 0]])


def test_colours_and_bytes_are_written_as_they_are(tmp_path):
    pixels = np.random.default_rng(1).integers(0, 256, [4, 5, 3]).astype(np.uint8)
    pictures.write_png(tmp_path / "c.png", pixels)
    with Image.open(tmp_path / "c.png") as image:
        assert np.array_equal(np.asarray(image), pixels)


def test_a_curve_falls_where_its_values_do():
    image = pictures.curve([4.0, np.nan, 2.0, 1.0], "loss", size=(200, 100))
    assert image.shape == (100, 200, 3) and image.dtype == np.uint8
    blue = (image[..., 2].astype(int) - image[..., 0]) > 100
    rows = [np.flatnonzero(blue[:, x]).mean() for x in range(60, 185, 20)]
    assert rows == sorted(rows) and rows[-1] - rows[0] > 20


def test_a_curve_of_one_height_is_drawn_and_one_of_nothing_refused():
    assert (pictures.curve([1.0, 1.0], "flat") != 255).any()
    with pytest.raises(ValueError, match="at least two finite values, not 1 of 2"):
        pictures.curve([1.0, np.inf], "loss")
