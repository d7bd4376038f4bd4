"""The `checkpoint` file, the best checkpoints, and initialization from checkpoints."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf


@pytest.fixture(autouse=True)
def _fresh_graph() -> Any:
    with tf.Graph().as_default():
        yield


def saved(prefix: Any, **values: Any) -> str:
    with tf.Graph().as_default(), tf.Session() as session:
        for name, value in values.items():
            tf.get_variable(name.replace("__", "/"), initializer=np.asarray(value, np.float32))
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, str(prefix), write_meta_graph=False)
        assert path is not None
        return path


def test_the_latest_checkpoint_is_found(tmp_path: Path) -> None:
    assert tf.train.latest_checkpoint(str(tmp_path)) is None
    assert tf.train.get_checkpoint_state(str(tmp_path)) is None
    assert tf.train.latest_checkpoint(str(tmp_path / "no")) is None
    path = saved(tmp_path / "m", v=1)
    assert tf.train.latest_checkpoint(str(tmp_path)) == path
    text = (tmp_path / "checkpoint").read_text()
    assert text == f'model_checkpoint_path: "{path}"\nall_model_checkpoint_paths: "{path}"\n'
    tf.train.update_checkpoint_state(str(tmp_path), str(tmp_path / "gone"), latest_filename="other")
    assert tf.train.latest_checkpoint(str(tmp_path), "other") is None
    (tmp_path / "checkpoint").write_text("what is this?")
    assert tf.train.latest_checkpoint(str(tmp_path)) is None
    (tmp_path / "checkpoint").write_bytes(b"\xff\xfe")
    assert tf.train.latest_checkpoint(str(tmp_path)) is None
    (tmp_path / "checkpoint").write_text("")
    with pytest.raises(ValueError, match="Invalid checkpoint state"):
        tf.train.get_checkpoint_state(str(tmp_path))


def test_paths_can_be_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkdir("run")
    v = tf.get_variable("v", initializer=1.0)
    with tf.Session() as session:
        session.run(v.initializer)
        assert tf.train.Saver().save(session, "run/m", write_meta_graph=False) == "run/m"
        assert Path("run/checkpoint").read_text().startswith('model_checkpoint_path: "m"\n')
        assert tf.train.latest_checkpoint("run") == "run/m"
        assert tf.train.Saver().save(session, "here", write_meta_graph=False) == "here"
        assert tf.train.latest_checkpoint("") == "here" and tf.train.latest_checkpoint(".") == "./here"
        absolute = str(tmp_path / "run" / "n")
        tf.train.Saver(save_relative_paths=True).save(session, absolute, write_meta_graph=False)
    assert Path("run/checkpoint").read_text().startswith('model_checkpoint_path: "n"\n')
    os.rename("run", "moved")
    assert tf.train.latest_checkpoint("moved") == "moved/n"


def test_state_protos() -> None:
    state = tf.train.generate_checkpoint_state_proto("/d", "/d/b", ["/d/a"], [1.0, 2.0], 0.5)
    assert list(state.all_model_checkpoint_paths) == ["/d/a", "/d/b"]
    assert list(state.all_model_checkpoint_timestamps) == [1.0, 2.0] and state.last_preserved_timestamp == 0.5
    state = tf.train.generate_checkpoint_state_proto("d", "d/b", ["d/a"])
    assert (state.model_checkpoint_path, list(state.all_model_checkpoint_paths)) == ("b", ["a", "b"])
    with pytest.raises(ValueError, match="timestamps"):
        tf.train.generate_checkpoint_state_proto("/d", "/d/b", None, [1.0, 2.0])
    with pytest.raises(RuntimeError, match="conflicts"):
        tf.train.update_checkpoint_state("/d", "/d/checkpoint")


def test_times_and_removal(tmp_path: Path) -> None:
    a, b = saved(tmp_path / "a[1]", v=1), saved(tmp_path / "b", v=1)
    (tmp_path / "b.meta").write_bytes(b"")
    (tmp_path / "bb.index").write_bytes(b"")
    times = tf.train.get_checkpoint_mtimes([a, str(tmp_path / "no"), b])
    assert len(times) == 2 and abs(times[0] - time.time()) < 1000
    tf.train.remove_checkpoint(a)
    assert not tf.train.checkpoint_exists(a) and tf.train.checkpoint_exists(b)
    tf.train.remove_checkpoint(b)
    assert set(os.listdir(tmp_path)) == {"checkpoint", "bb.index"}
    tf.train.remove_checkpoint(b)


def test_readers_list_and_load(tmp_path: Path) -> None:
    path = saved(tmp_path / "m", s__v=[1, 2], w=3)
    assert tf.train.list_variables(str(tmp_path)) == [("s/v", [2]), ("w", [])]
    assert tf.train.load_variable(str(tmp_path), "s/v").tolist() == [1, 2]
    reader = tf.train.load_checkpoint(path)
    assert reader.has_tensor("w") and not reader.has_tensor("x")
    assert reader.get_variable_to_dtype_map() == {"s/v": tf.float32, "w": tf.float32}
    assert reader.debug_string() == b"s/v (DT_FLOAT) [2]\nw (DT_FLOAT) []"
    with pytest.raises(tf.errors.NotFoundError, match="Key x not found"):
        reader.get_tensor("x")
    with pytest.raises(tf.errors.NotFoundError, match="Failed to find any matching files"):
        tf.train.NewCheckpointReader(str(tmp_path / "none"))
    with pytest.raises(ValueError, match="checkpoint"):
        os.mkdir(tmp_path / "empty")
        tf.train.load_checkpoint(str(tmp_path / "empty"))


def test_variables_are_initialized_from_a_checkpoint(tmp_path: Path) -> None:
    path = saved(tmp_path / "m", a__v=[1, 2], a__w=3, b=[[4], [5], [6], [7]], c=8)
    v, w = tf.get_variable("n/v", [2]), tf.get_variable("n/w", [])
    b = tf.get_variable("b", [4, 1], partitioner=tf.fixed_size_partitioner(2))
    c, d = tf.get_variable("c", []), tf.get_variable("d", initializer=9.0)
    e = tf.get_variable("e", [4, 1], partitioner=tf.fixed_size_partitioner(3))
    tf.train.init_from_checkpoint(str(tmp_path), {"a/": "n/", "c": c, "b": "b"})
    tf.train.init_from_checkpoint(path, {"b": list(e)})
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run([v, w, c, d])[0].tolist() == [1, 2] and session.run([w, c, d]) == [3, 8, 9]
        assert session.run(b.as_tensor()).tolist() == session.run(e.as_tensor()).tolist() == [[4], [5], [6], [7]]
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.get_variable("a/v", [2])
        tf.get_variable("a/w", [])
        tf.train.init_from_checkpoint(path, {"/": "/"})
        session.run(v.initializer)
        assert session.run(v).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("mapping", "match"),
    [
        ({"zz": "c"}, "zz is not found"),
        ({"a/v": "c"}, "doesn't match"),
        ({"c": "nothing"}, "not a variable"),
        ({"c": "x/"}, "scope"),
        ({"a/": "nothing/"}, "no variable"),
        ({"b/": "x/"}, "x/y in x/"),
    ],
)
def test_wrong_assignment_maps_are_refused(tmp_path: Path, mapping: dict[str, str], match: str) -> None:
    path = saved(tmp_path / "m", a__v=[1, 2], c=8)
    tf.get_variable("c", [])
    tf.get_variable("x/y", [])
    with pytest.raises(ValueError, match=match):
        tf.train.init_from_checkpoint(path, mapping)


def test_warm_start(tmp_path: Path) -> None:
    path = saved(tmp_path / "m", a=1, b=2, old=3)
    a, b, new = (tf.get_variable(name, initializer=0.0) for name in ("a", "b", "new"))
    tf.train.warm_start(path, "a|new", var_name_to_prev_var_name={"new": "old"})
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run([a, b, new]) == [1, 0, 3]
        tf.train.warm_start(path, [b])
        session.run(b.initializer)
        assert session.run(b) == 2
    with pytest.raises(ValueError, match="none of the variables"):
        tf.train.warm_start(path, "a", var_name_to_prev_var_name={"q": "old"})


def test_the_best_checkpoints_are_kept(tmp_path: Path) -> None:
    v = tf.get_variable("v", initializer=0.0)
    prefix = str(tmp_path / "m")
    with tf.Session() as session:
        session.run(v.initializer)
        best = tf.train.BestSaver(prefix, max_to_keep=2, mode="min")
        assert best.best_checkpoint is None
        results = [best.save(session, x, global_step=i) for i, x in enumerate([5, 3, 4, float("nan"), 6, 3])]
        assert [r is not None for r in results] == [True, True, True, False, False, True]
        assert best.checkpoints == [(f"{prefix}-1", 3.0), (f"{prefix}-5", 3.0)]
        again = tf.train.BestSaver(prefix, max_to_keep=2, mode="min", saver=best.saver)
        assert again.checkpoints == best.checkpoints
        assert again.save(session, 1.0, global_step=9) == f"{prefix}-9"
    assert tf.train.latest_checkpoint(str(tmp_path), "best_checkpoint") == f"{prefix}-9"
    assert {name.split(".")[0] for name in os.listdir(tmp_path)} == {"best_checkpoint", "m-1", "m-9"}
    (tmp_path / "best_checkpoint.json").write_text("[")
    assert tf.train.BestSaver(prefix, saver=best.saver).checkpoints == []
    for wrong in ({"mode": "best"}, {"max_to_keep": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            tf.train.BestSaver(prefix, saver=best.saver, **wrong)


def test_checkpoints_are_waited_for(tmp_path: Path) -> None:
    tf.get_variable("v", [2])
    saver = tf.train.Saver()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found: list[str] = []
        asked: list[int] = []
        for prefix in tf.train.checkpoints_iterator(
            str(tmp_path),
            timeout=0.01,
            timeout_fn=lambda: asked.append(1) or len(asked) > 1,  # type: ignore[func-returns-value]
        ):
            found.append(os.path.basename(prefix))
            if len(found) < 3:
                saver.save(session, str(tmp_path / "m"), global_step=len(found))
        assert found == [] and len(asked) == 2
        saver.save(session, str(tmp_path / "m"), global_step=0)
        for prefix in tf.train.checkpoints_iterator(str(tmp_path), timeout=0.01):
            found.append(os.path.basename(prefix))
            if len(found) < 3:
                saver.save(session, str(tmp_path / "m"), global_step=len(found))
    assert found == ["m-0", "m-1", "m-2"]


def test_the_meta_graph_is_there_before_the_checkpoint_file_names_it(tmp_path: Path, monkeypatch: Any) -> None:
    tf.Variable(1.0, name="v")
    saver = tf.train.Saver()

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first = saver.save(session, str(tmp_path / "model"), 1)
        with monkeypatch.context() as patch:
            patch.setattr(tf.train.Saver, "export_meta_graph", killed)
            with pytest.raises(KeyboardInterrupt):
                saver.save(session, str(tmp_path / "model"), 2)
    assert tf.train.latest_checkpoint(str(tmp_path)) == first
    assert (tmp_path / "model-1.meta").exists()


def test_the_next_save_removes_data_without_an_index(tmp_path: Path, monkeypatch: Any) -> None:
    from thalweg.train.checkpoints import checkpoint_state

    tf.Variable(1.0, name="v")
    saver = tf.train.Saver()
    left = [tmp_path / f"model-{n}.data-00000-of-00001" for n in (1, 2)]
    others = [tmp_path / name for name in ("model-a.data-00000-of-00001", "other-1.data-00000-of-00001", "model-9.txt")]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        saver.save(session, str(tmp_path / "model"), 3)
        for path in (*left, *others):
            path.write_bytes(b"part")
        saver.save(session, str(tmp_path / "model"), 4)
        assert all(path.exists() for path in left)  # Its index may be about to come.
        monkeypatch.setattr(checkpoint_state, "ORPHAN_SECONDS", -1)
        saver.save(session, str(tmp_path / "model"), 5)
        assert not any(path.exists() for path in left)
        assert all(path.exists() for path in others)
        saver.restore(session, str(tmp_path / "model-3"))
