"""tf.test.Benchmark: a base class for programs that time a step."""

from __future__ import annotations

import statistics
import time
from typing import Any

from thalweg.graph.default_stack import get_default_session
from thalweg.platform import logging
from thalweg.runtime.session import Session


class Benchmark:
    """Times steps: derive from it, and call `run_op_benchmark` in methods whose names start with `benchmark`."""

    @classmethod
    def is_abstract(cls) -> bool:
        """Whether this is the base class itself."""
        return cls is Benchmark

    def evaluate(self, tensors: Any) -> Any:
        """The values of tensors, computed by the default session."""
        session = get_default_session()
        if session is not None:
            return session.run(tensors)
        with Session() as session:
            return session.run(tensors)

    def run_op_benchmark(
        self, sess: Any, op_or_tensor: Any, feed_dict: Any = None, burn_iters: int = 2, min_iters: int = 10,
        store_trace: bool = False, store_memory_usage: bool = True, name: str | None = None, extras: Any = None,
        mbs: float = 0,
    ) -> dict[str, Any]:  # fmt: skip
        """Runs a step several times and reports the median of its times.

        Args:
            sess: The session.
            op_or_tensor: What to run; a tensor's operation is run, so that its value is not copied out.
            feed_dict: Values to feed.
            burn_iters: Runs before the clock starts.
            min_iters: Runs that count.
            store_trace: Ignored: traces come with the profiler.
            store_memory_usage: Ignored likewise.
            name: The name to report under.
            extras: More to report.
            mbs: Megabytes that one run moves, for the throughput.

        Returns:
            A dict with iters, extras, name, throughput and wall_time (seconds, the median).
        """
        target = getattr(op_or_tensor, "op", op_or_tensor)
        for _ in range(burn_iters):
            sess.run(target, feed_dict)
        times = []
        for _ in range(max(1, min_iters)):
            start = time.perf_counter()
            sess.run(target, feed_dict)
            times.append(time.perf_counter() - start)
        median = statistics.median(times)
        result: dict[str, Any] = {
            "iters": len(times),
            "extras": {**(extras or {}), "wall_time_mean": statistics.fmean(times), "wall_time_min": min(times)},
            "name": name or type(self).__name__,
            "throughput": mbs / median if median > 0 else 0.0,
            "wall_time": median,
        }
        self.report_benchmark(**result)
        return result

    def report_benchmark(
        self, iters: int | None = None, cpu_time: float | None = None, wall_time: float | None = None,
        throughput: float | None = None, extras: Any = None, name: str | None = None, metrics: Any = None,
    ) -> None:  # fmt: skip
        """Logs one result; see `run_op_benchmark` for the values."""
        values = {
            "iters": iters, "cpu_time": cpu_time, "wall_time": wall_time, "throughput": throughput, "extras": extras,
            "metrics": metrics,
        }  # fmt: skip
        known = ", ".join(f"{key}: {value}" for key, value in values.items() if value is not None)
        logging.info("Benchmark %s: %s", name or type(self).__name__, known)
