"""The frameworks to compare with: where their virtual environments are, and how to make them."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Folder of the virtual environment, and its packages, with exact versions.
PEERS = {
    "tensorflow": ("tf", "tensorflow-cpu==2.21.0"),
    "torch": ("torch", "torch==2.13.0"),
    "torch_compiled": ("torch", "torch==2.13.0"),
    "jax": ("jax", "jax==0.10.2"),
}


def python_of(framework: str, folder: Path | None, pip_arguments: list[str]) -> str:
    """The Python interpreter that has the framework; its environment is made if it is missing.

    Args:
        framework: "thalweg", "before" (another tree of it, in the same environment) or one of PEERS.
        folder: A folder with the environments tf, torch and jax; `.bench` in the project if None.
        pip_arguments: Further arguments for pip, such as an index that has CPU builds of PyTorch.

    Raises:
        RuntimeError: The environment cannot be made.
    """
    if framework in ("thalweg", "before"):
        return sys.executable
    name, requirement = PEERS[framework]
    environment = (folder or ROOT / ".bench") / name
    python = environment / "bin" / "python"
    if python.exists():
        return str(python)
    if folder is not None:
        raise RuntimeError(f"{folder} has no virtual environment {name}")
    print(f"Installing {requirement} into {environment.relative_to(ROOT)} (once; takes minutes)", flush=True)
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *pip_arguments]
    done = subprocess.run([*install, requirement, "numpy"], capture_output=True, text=True, check=False)
    if done.returncode:
        python.unlink()  # So that the next run tries again.
        raise RuntimeError(f"pip could not install {requirement}:\n{done.stderr[-2000:]}")
    return str(python)


def environment_of(framework: str, threads: int, before: Path | None = None) -> dict[str, str]:
    """The environment variables of a worker: the same number of threads for every framework, and less noise.

    Args:
        framework: As for `python_of`.
        threads: Of every framework.
        before: The tree that the framework "before" is imported from.
    """
    variables = {
        **os.environ,
        "OMP_NUM_THREADS": str(threads),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "",
        "JAX_PLATFORMS": "cpu",
        "PYTHONWARNINGS": "ignore",
    }
    if framework == "before":
        variables["PYTHONPATH"] = str(before / "src")
    elif framework != "thalweg":
        variables.pop("PYTHONPATH", None)
    return variables
