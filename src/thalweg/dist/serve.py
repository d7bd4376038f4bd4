"""`python -m thalweg.dist.serve`: a task that only serves, as TF_CONFIG or the scheduler's variables describe it."""

from __future__ import annotations

import argparse

from thalweg.dist.cluster_task import start_task
from thalweg.dist.tensorflow_clients import TensorFlowClients


def main() -> None:
    """Serves until the process is stopped."""
    parser = argparse.ArgumentParser("python -m thalweg.dist.serve", description=main.__doc__)
    parser.add_argument(
        "--tensorflow-clients", action="store_true",
        help="let sessions of TensorFlow programs use this task as their master; their protocol has no key",
    )  # fmt: skip
    limits = TensorFlowClients()
    parser.add_argument(
        "--tensorflow-sessions", type=int, default=limits.most_sessions, metavar="N",
        help="how many sessions these may have at a time (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--tensorflow-idle", type=float, default=limits.idle_seconds, metavar="S",
        help="close their sessions that have not been used for S seconds; 0: never (default: %(default)s)",
    )  # fmt: skip
    options = parser.parse_args()
    limits = TensorFlowClients(options.tensorflow_sessions, options.tensorflow_idle)
    start_task(tensorflow_clients=limits if options.tensorflow_clients else False).server.join()


if __name__ == "__main__":
    main()
