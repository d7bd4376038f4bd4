"""Installs the requirements of pyproject.toml into the virtual environment whose Python runs this file.

Only packages that are missing or too old are installed, so a second run, or an environment that has all, costs a
fraction of a second and no network. The requirements are read from pyproject.toml alone: build, run time, and the
extras that building and testing need; or those of the extras named as arguments: `install_requirements.py docs`.
"""

import importlib.metadata
import subprocess
import sys
import tomllib
from pathlib import Path

from pip._vendor.packaging.requirements import Requirement

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


# Extras that only the command which needs them installs.
ON_REQUEST = ("docs", "ray", "wheel")


def requirements(extras: list[str]) -> list[Requirement]:
    """The requirements of some extras; without any, all of the project but those on request. Each once."""
    table = tomllib.loads(PYPROJECT.read_text())
    project = table["project"]
    texts = [] if extras else [*table["build-system"]["requires"], *project["dependencies"]]
    for name, extra in project["optional-dependencies"].items():
        if name in extras or (not extras and name not in ON_REQUEST):
            texts += [text for text in extra if Requirement(text).name != project["name"]]
    return [Requirement(text) for text in dict.fromkeys(texts)]


def is_satisfied(requirement: Requirement) -> bool:
    """Whether the running environment has a version that the requirement accepts."""
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return requirement.specifier.contains(version, prereleases=True)


def install(missing: list[Requirement]) -> int:
    """Runs pip and names each package as it arrives; shows all of pip's words only when it fails."""
    # Python compiles a module when it is first imported: compiling all of them takes seconds, and few are used.
    quick = ["--disable-pip-version-check", "--no-compile"]
    command = [sys.executable, "-m", "pip", "install", *quick, *map(str, missing)]
    output = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            output.append(line)
            if line.startswith("Collecting"):
                print(f"  {line.split()[1]}", flush=True)
            elif line.startswith("Installing collected"):
                print("  … all here, unpacking", flush=True)
    if pip.returncode:
        print("".join(output), file=sys.stderr)
    return pip.returncode


def main() -> int:
    """Installs missing packages."""
    wanted = requirements(sys.argv[1:])
    missing = [requirement for requirement in wanted if not is_satisfied(requirement)]
    if not missing:
        print(f"All {len(wanted)} required packages are present.")
        return 0
    print(f"Installing {len(missing)} of {len(wanted)} required packages (a minute or two the first time):", flush=True)
    return install(missing)


if __name__ == "__main__":
    sys.exit(main())
