"""`thalweg run` and install_as_tensorflow: programs that say `import tensorflow` run on Thalweg."""

from __future__ import annotations

import gzip
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import thalweg as tf
from thalweg.as_tensorflow.finder import aliased
from thalweg.as_tensorflow.module_table import TABLES, sources_of

SOURCE = Path(tf.__file__).parents[1]


def run(tmp_path: Path, program: str, *arguments: str, path: str = "") -> subprocess.CompletedProcess[str]:
    file = tmp_path / "program.py"
    file.write_text(program)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(SOURCE), path]))}
    command = [sys.executable, "-m", "thalweg", "run", *arguments[:0], str(file), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)


IMPORTS = """
import importlib
import sys
import tensorflow as tf
import tensorflow.compat.v1 as tf1
import tensorflow.contrib.layers as layers
import tensorflow.contrib.slim as slim
from tensorflow.contrib import rnn, slim as slim_again
from tensorflow.contrib.slim.nets import vgg
from tensorflow.contrib.slim.python.slim.nets import inception_v3
from tensorflow.python.framework import dtypes, graph_util, ops, tensor_shape
from tensorflow.python.ops import array_ops, gen_math_ops, variable_scope as vs
from tensorflow.python.ops.rnn_cell_impl import RNNCell, _linear
from tensorflow.python.platform import gfile
from tensorflow.python.client import device_lib, timeline
from tensorflow.python.training import moving_averages
from tensorflow.python.layers import base
from tensorflow.python.tools import freeze_graph, inspect_checkpoint, optimize_for_inference_lib
from tensorflow.python.util import nest
from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import config_pb2
from tensorflow.core.example import example_pb2
from tensorflow.examples.tutorials.mnist import input_data
import thalweg

assert tf is thalweg is tf1 and slim is slim_again is tf.contrib.slim
assert sys.modules["tensorflow.contrib.layers"] is sys.modules["thalweg.contrib.layers"] is layers
assert importlib.import_module("tensorflow.python.framework.ops") is sys.modules["thalweg.python.framework.ops"] is ops
assert ops.Tensor is tf.Tensor and ops.name_scope is tf.name_scope and dtypes.float32 is tf.float32
assert gfile is tf.gfile and graph_pb2.GraphDef is tf.GraphDef and config_pb2.ConfigProto is tf.ConfigProto
assert example_pb2.Example is tf.train.Example and inception_v3.inception_v3 is slim.nets.inception_v3.inception_v3
assert issubclass(rnn.BasicLSTMCell, RNNCell) and base.Layer is tf.layers.Layer
with tf.Session() as sess:
    print(sess.run(gen_math_ops.mat_mul([[2.0]], [[3.0]]))[0, 0], array_ops.shape(tf.zeros([2, 3])).shape)
print(sys.argv[1:], __name__)
for name in ("tensorflow.python.no_such.module", "tensorflow.contrib.no_such"):
    try:
        __import__(name)
    except ImportError as e:
        print(type(e).__name__, e)
try:
    from tensorflow.python.ops.array_ops import no_such_function
except ImportError as e:
    print(e)
"""


def test_imports_of_a_program_give_thalwegs_modules(tmp_path: Path) -> None:
    done = run(tmp_path, IMPORTS, "one", "--two")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "6.0 (2,)"
    assert lines[1] == "['one', '--two'] __main__"
    assert lines[2] == "NoSuchModuleError Thalweg has no module 'tensorflow.python.no_such'"
    assert lines[3] == "NoSuchModuleError Thalweg has no module 'tensorflow.contrib.no_such'"
    assert "no_such_function" in lines[4]


def test_programs_find_horovods_names(tmp_path: Path) -> None:
    program = """
import horovod.tensorflow as hvd
import thalweg.horovod
from horovod import tensorflow as again
from horovod.tensorflow import elastic
assert hvd is again is thalweg.horovod and elastic is thalweg.horovod.elastic
try:
    import horovod.torch
except ImportError as e:
    print(e)
hvd.init()
print(hvd.rank(), hvd.size())
"""
    done = run(tmp_path, program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["Thalweg has no module 'horovod.torch'", "0 1"]


def test_modules_that_the_program_imports_see_it_too(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("import tensorflow as tf\nname = tf.__name__\n")
    done = run(tmp_path, "import model\nprint(model.name)\nraise SystemExit(3)\n")
    assert (done.returncode, done.stdout) == (3, "thalweg\n")


def test_an_installed_tensorflow_is_not_shadowed_unless_asked(tmp_path: Path) -> None:
    installed = tmp_path / "site" / "tensorflow"
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text("name = 'the real one'\n")
    done = run(tmp_path, "import tensorflow\n", path=str(installed.parent))
    assert done.returncode == 1 and "--shadow" in done.stderr
    code = (
        "import thalweg, sys\n"
        "try: thalweg.install_as_tensorflow()\n"
        "except ImportError as e: print('shadow=True' in str(e))\n"
        "thalweg.install_as_tensorflow(shadow=True); thalweg.install_as_tensorflow()\n"
        "import tensorflow; print(tensorflow is thalweg)\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{installed.parent}"}
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert made.stdout.split() == ["True", "True"]
    before = "import tensorflow, thalweg\ntry: thalweg.install_as_tensorflow()\nexcept ImportError as e: print(e)\n"
    late = subprocess.run([sys.executable, "-c", before], capture_output=True, text=True, env=environment, check=True)
    assert "imported in this process already" in late.stdout


def test_without_asking_nothing_is_called_tensorflow() -> None:
    code = "import thalweg, sys; print([m for m in sys.modules if m.startswith('tensorflow')])"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == "[]"


def test_importing_thalweg_loads_no_contrib_library() -> None:
    code = (
        "import thalweg, sys; print([m for m in list(sys.modules)"
        " if m.startswith(('thalweg.contrib.', 'thalweg.as_tensorflow', 'thalweg.tensorflow_modules')) and"
        " '__file__' in vars(sys.modules[m])])"
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("root", TABLES)
def test_every_listed_path_is_a_module(root: str) -> None:
    for path in TABLES[root]:
        if "*" not in path:
            assert sources_of(f"{root}.{path}") is not None
            assert aliased(f"{root}.{path}") is not None, path


def test_raw_ops_take_inputs_and_attributes_by_position() -> None:
    from thalweg.python.ops import gen_array_ops, gen_math_ops

    with tf.Graph().as_default(), tf.Session() as sess:
        product = gen_math_ops.mat_mul([[1.0], [2.0]], [[3.0], [4.0]], True)
        assert sess.run(product).tolist() == [[11.0]]
        assert sess.run(gen_array_ops.expand_dims([1, 2], 0)).tolist() == [[1, 2]]
        with pytest.raises(TypeError, match="more than one value"):
            gen_math_ops.mat_mul([[1.0]], [[1.0]], a=[[1.0]])


def write_mnist(folder: Path) -> None:
    random = np.random.RandomState(0)
    for part, count in (("train", 60), ("t10k", 20)):
        images = random.randint(0, 256, [count, 28, 28]).astype(np.uint8)
        labels = (np.arange(count) % 10).astype(np.uint8)
        for name, array, magic in (("images-idx3", images, 2051), ("labels-idx1", labels, 2049)):
            header = struct.pack(f">{1 + array.ndim}I", magic, *array.shape)
            (folder / f"{part}-{name}-ubyte.gz").write_bytes(gzip.compress(header + array.tobytes()))


def test_mnist_is_read_from_local_files_in_batches(tmp_path: Path) -> None:
    from thalweg.examples.tutorials.mnist import input_data

    with pytest.raises(FileNotFoundError, match=r"train-labels-idx1-ubyte\.gz.*downloads nothing"):
        input_data.read_data_sets(str(tmp_path))
    write_mnist(tmp_path)
    mnist = input_data.read_data_sets(str(tmp_path), one_hot=True, validation_size=10, seed=1)
    assert (mnist.train.num_examples, mnist.validation.num_examples, mnist.test.num_examples) == (50, 10, 20)
    x, y = mnist.train.next_batch(30)
    assert x.shape == (30, 784) and x.dtype == np.float32 and x.min() >= 0 and x.max() <= 1 and y.shape == (30, 10)
    mnist.train.next_batch(30)
    assert mnist.train.epochs_completed == 1
    with pytest.raises(ValueError, match="Validation size"):
        input_data.read_data_sets(str(tmp_path), validation_size=61)
    raw = input_data.read_data_sets(str(tmp_path), dtype=np.uint8, reshape=False, validation_size=0)
    assert raw.test.images.shape == (20, 28, 28, 1) and raw.test.images.dtype == np.uint8
