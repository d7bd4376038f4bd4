"""The size of an installation with its dependencies: a new virtual environment with the wheel, and the peers' own."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 250e6
# The packages of a new virtual environment.
NOT_COUNTED = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "distutils-precedence")


def site_packages_bytes(environment: Path) -> int:
    """The bytes of all files below site-packages, without pip's own."""
    total = 0
    for site in environment.glob("lib/python3*/site-packages"):
        for entry in site.iterdir():
            if entry.name.startswith(NOT_COUNTED):
                continue
            files = entry.rglob("*") if entry.is_dir() else [entry]
            total += sum(file.lstat().st_size for file in files if file.is_file() and file.suffix != ".pyc")
    return total


def installed_sizes(pythons: dict[str, str]) -> dict[str, int]:
    """Measures and prints the installed size of every framework."""
    sizes = {}
    with tempfile.TemporaryDirectory() as folder:
        print("\nBuilding the wheel and installing it into a new environment", flush=True)
        quiet = ["-q", "--disable-pip-version-check"]
        wheels, environment = Path(folder, "wheels"), Path(folder, "venv")
        subprocess.run([sys.executable, "-m", "pip", "wheel", *quiet, "--no-deps", "-w", wheels, ROOT], check=True)
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        wheel = next(wheels.glob("thalweg-*.whl"))
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        subprocess.run([environment / "bin/python", "-m", "pip", "install", *quiet, wheel], check=True, env=variables)
        subprocess.run([environment / "bin/python", "-c", "import thalweg"], check=True, env=variables)
        sizes["thalweg"] = site_packages_bytes(environment)
    for framework, python in pythons.items():
        if framework != "thalweg":
            sizes[framework] = site_packages_bytes(Path(python).parent.parent)
    for framework, size in sizes.items():
        bound = ""
        if framework == "thalweg":
            bound = f"  {'ok' if size < LIMIT else 'MISSED'} <{LIMIT / 1e6:.0f} MB"
        print(f"  installed with dependencies: {framework:<11}{size / 1e6:7.0f} MB{bound}")
    return sizes
