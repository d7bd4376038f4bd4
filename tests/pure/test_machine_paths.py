"""No file of the repository, binary or text, names a folder of the machine that made it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = re.compile(rb"/(?:home|Users|root|work|workspace|mnt)/[\w.-]+/")
INVENTED = {b"/home/me/"}


def test_no_file_holds_a_path_of_the_machine_that_made_it() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a clone: what is the repository's and what was built cannot be told apart")
    names = [name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]
    assert len(names) > 1000
    found = {name: set(FOLDER.findall((ROOT / name).read_bytes())) - INVENTED for name in names}
    assert {name: paths for name, paths in found.items() if paths} == {}


def test_such_a_path_is_found_in_bytes() -> None:
    folder = b"/" + b"work" + b"/saver/"
    assert FOLDER.search(b"\x0a\x2f" + folder + b"words.txt_-2")
