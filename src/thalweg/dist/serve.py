"""`python -m thalweg.dist.serve`: a task that only serves, as TF_CONFIG or the scheduler's variables describe it."""

from __future__ import annotations

import argparse

from thalweg.dist.cluster_task import start_task


def main() -> None:
    """Serves until the process is stopped."""
    parser = argparse.ArgumentParser("python -m thalweg.dist.serve", description=main.__doc__)
    parser.add_argument(
        "--tensorflow-clients", action="store_true",
        help="let sessions of TensorFlow programs use this task as their master; their protocol has no key",
    )  # fmt: skip
    start_task(tensorflow_clients=parser.parse_args().tensorflow_clients).server.join()


if __name__ == "__main__":
    main()
