"""The distributed runtime: tasks, masters, workers, and sessions on clusters (docs/decisions/0023-tasks.md)."""
