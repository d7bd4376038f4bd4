"""Puts the command `thalweg` into the environment of this interpreter, to run a source tree: `make_command.py SRC`.

After `make build`, `.venv/bin/thalweg` and `.venv/bin/python -c "import thalweg"` use the tree, as an editable install
would do, and without building anything a second time. An environment outside of the tree, which several trees may
share, is left as it is.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

COMMAND = """#!{python}
# Runs the tree {source}; written by `make build`.
import sys

sys.path.insert(0, {source!r})
from thalweg.cli.main import main

sys.exit(main())
"""


def main(source: str) -> None:
    """Writes the command, and the path file by which the environment finds the package."""
    if Path(source).parent not in Path(sys.prefix).parents:
        return
    scripts, packages = Path(sysconfig.get_path("scripts")), Path(sysconfig.get_path("purelib"))
    command = scripts / "thalweg"
    command.write_text(COMMAND.format(python=sys.executable, source=source), encoding="utf-8")
    command.chmod(0o755)
    (packages / "thalweg-source.pth").write_text(source + "\n", encoding="utf-8")
    print(f"Commands: {command}, {scripts / 'tensorboard'}")


if __name__ == "__main__":
    main(sys.argv[1])
