"""What prompts and notebooks show for objects of the library."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thalweg as tf
from thalweg import notebook_views
from thalweg.graph.graph import Graph


def test_optimizers_layers_and_savers_say_what_they_are(tmp_path: Path) -> None:
    optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
    text = repr(optimizer)
    assert text.startswith("<tf.train.MomentumOptimizer 'Momentum'")
    assert "0.1" in text
    assert "0.9" in text
    layer = tf.layers.Dense(3, name="dense")
    assert repr(layer) == "<Dense 'dense', not built>"
    x = tf.placeholder(tf.float32, [None, 4])
    optimizer.minimize(tf.reduce_sum(layer(x)))
    assert repr(layer) == "<Dense 'dense', variables: kernel (4, 3), bias (3,)>"
    assert "slots momentum" in repr(optimizer)
    saver = tf.train.Saver(max_to_keep=2)
    assert repr(saver) == "<tf.train.Saver of 4 variables, keeps 2>"
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        saver.save(session, str(tmp_path / "model"))
    assert repr(saver).endswith("model'>")
    assert repr(tf.train.Saver(defer_build=True)) == "<tf.train.Saver of all variables, keeps 5, not built>"


def test_notebooks_show_pictures_and_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not hasattr(Graph, "_repr_html_")  # Programs outside of notebooks do without.
    x = tf.placeholder(tf.float32, [None, 4], name="x<y"[:1])
    with tf.name_scope("scope"):
        y = tf.matmul(x, tf.ones([4, 2]))
    graph = tf.get_default_graph()
    assert "<svg" in notebook_views.graph_html(graph)
    assert "scope" in notebook_views.graph_html(graph)
    assert "empty" in notebook_views.graph_html(tf.Graph())
    with tf.profiler.record() as recording, tf.Session() as session:
        session.run(y, {x: np.ones([2, 4])})
        html = notebook_views.session_html(session)
        assert "device:CPU:0" in html
        assert "open" in html
    assert "closed" in notebook_views.session_html(session)
    assert "MatMul" in notebook_views.profile_html(recording.profile())
    dataset = tf.data.Dataset.from_tensor_slices({"a": [1, 2], "b": [[1.0], [2.0]]})
    html = notebook_views.dataset_html(dataset)
    assert "int32 ()" in html
    assert "float32 (1,)" in html
    assert "<svg" in notebook_views.comparison_html(tf.placement.compare(y, 2, names=["single"])[0])


def test_installing_the_views_gives_all_classes_their_method() -> None:
    kinds = (Graph, tf.Session, tf.data.Dataset, tf.profiler.Recording)
    try:
        notebook_views.install()
        for kind in kinds:
            assert callable(kind._repr_html_)
        assert "empty" in tf.Graph()._repr_html_()
    finally:
        for kind in (Graph, tf.Session.__mro__[1], tf.data.Dataset, tf.profiler.Recording):
            delattr(kind, "_repr_html_")
        del notebook_views.Profile._repr_html_, notebook_views.Comparison._repr_html_


def test_a_graph_with_too_many_scopes_is_summarized() -> None:
    for i in range(500):
        tf.constant(1.0, name=f"c{i}")
    html = notebook_views.graph_html(tf.get_default_graph())
    assert "too many to draw" in html
    assert "500 operations" in html
