"""The time to import each framework, in a new process, with all files in the page cache."""

from case import Case

ORDER = 7
CASES = {
    "import": Case(
        "import, in a new process",
        programs={
            "thalweg": "import thalweg",
            "tensorflow": "import tensorflow",
            "torch": "import torch",
            "jax": "import jax",
        },
        targets={"tensorflow": 10},
    )
}
