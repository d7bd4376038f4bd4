"""Directories of tasks: addresses from a file that a launcher replaces."""

from __future__ import annotations

from pathlib import Path

import pytest

from thalweg import errors
from thalweg.dist.directory import Directory, FileDirectory, open_directory, write_directory
from thalweg.train.cluster_spec import ClusterSpec

CLUSTER = ClusterSpec({"ps": ["a:1"], "worker": ["b:1", "b:2"]})
PS, WORKER = "/job:ps/replica:0/task:0", "/job:worker/replica:0/task:1"


def test_a_task_that_has_moved_is_found_at_its_new_address(tmp_path: Path) -> None:
    path = str(tmp_path / "directory.json")
    write_directory(path, {"ps": ["a:1"], "worker": ["b:1", "b:2"]})
    directory = FileDirectory(CLUSTER, path)
    assert directory.address(PS) == "a:1"
    write_directory(path, {"ps": ["c:7"], "worker": ["b:1", "b:2"]})
    assert directory.address(PS) == "c:7"
    assert directory.address(WORKER) == "b:2"


def test_a_task_of_the_file_alone_belongs_to_the_cluster(tmp_path: Path) -> None:
    path = str(tmp_path / "directory.json")
    write_directory(path, {"worker": ["b:1", "b:2", "d:3"]})
    directory = FileDirectory(CLUSTER, path)
    assert directory.address("/job:worker/replica:0/task:2") == "d:3"
    assert "/job:worker/replica:0/task:2" in directory.tasks()
    with pytest.raises(errors.NotFoundError):
        directory.address("/job:worker/replica:0/task:3")


def test_the_own_address_wins_over_the_file(tmp_path: Path) -> None:
    path = str(tmp_path / "directory.json")
    directory = FileDirectory(CLUSTER, path)
    directory.move(WORKER, "b:9")
    write_directory(path, {"ps": ["c:7"], "worker": ["b:1", "b:2"]})
    assert directory.address(WORKER) == "b:9"
    assert directory.address(PS) == "c:7"


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"ps": 3}', '{"ps": [4]}'])
def test_a_file_that_cannot_be_read_changes_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "directory.json"
    write_directory(str(path), {"ps": ["c:7"]})
    directory = FileDirectory(CLUSTER, str(path))
    path.write_text(text)
    assert directory.address(PS) == "c:7"


def test_the_environment_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("THALWEG_DIRECTORY", raising=False)
    assert type(open_directory(CLUSTER)) is Directory
    monkeypatch.setenv("THALWEG_DIRECTORY", str(tmp_path / "directory.json"))
    assert isinstance(open_directory(CLUSTER), FileDirectory)
