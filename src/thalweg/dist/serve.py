"""`python -m thalweg.dist.serve`: a task that only serves, as TF_CONFIG or the scheduler's variables describe it."""

from __future__ import annotations

from thalweg.dist.cluster_task import start_task


def main() -> None:
    """Serves until the process is stopped."""
    start_task().server.join()


if __name__ == "__main__":
    main()
