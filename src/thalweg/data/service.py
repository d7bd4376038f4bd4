"""The configurations of tf.data's service, which distributes an input pipeline over processes.

Programs carry them around and compare them; the servers themselves do not exist here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from thalweg.graph.definitions.op_registry import export

_PROTOCOL = "grpc"


class _DispatcherFields(NamedTuple):
    port: int
    protocol: str
    work_dir: str | None
    fault_tolerant_mode: bool
    worker_addresses: Sequence[str] | None
    job_gc_check_interval_ms: int
    job_gc_timeout_ms: int
    worker_timeout_ms: int | None
    worker_max_concurrent_snapshots: int


@export("data.experimental.service.DispatcherConfig")
class DispatcherConfig(_DispatcherFields):
    """The configuration of a dispatcher.

    Example:
        >>> tf.data.experimental.service.DispatcherConfig(port=5050).protocol
        'grpc'
    """

    __slots__ = ()

    def __new__(
        cls,
        port: int = 0,
        protocol: str | None = None,
        work_dir: str | None = None,
        fault_tolerant_mode: bool = False,
        worker_addresses: Sequence[str] | None = None,
        job_gc_check_interval_ms: int | None = None,
        job_gc_timeout_ms: int | None = None,
        worker_timeout_ms: int | None = None,
        worker_max_concurrent_snapshots: int = 0,
    ) -> DispatcherConfig:
        """Fills in defaults.

        Args:
            port: Where to listen; 0 for any free port.
            protocol: "grpc" if None.
            work_dir: Where a fault-tolerant dispatcher keeps its journal.
            fault_tolerant_mode: Whether to keep a journal.
            worker_addresses: The workers, if they are known beforehand.
            job_gc_check_interval_ms: How often to look for jobs without readers; 0 leaves it to the dispatcher.
            job_gc_timeout_ms: How long a job may lie unread; 0 leaves it to the dispatcher.
            worker_timeout_ms: After which silence a worker counts as lost.
            worker_max_concurrent_snapshots: How many snapshots a worker may write at once.
        """
        return super().__new__(
            cls, port, protocol or _PROTOCOL, work_dir, fault_tolerant_mode, worker_addresses,
            job_gc_check_interval_ms or 0, job_gc_timeout_ms or 0, worker_timeout_ms, worker_max_concurrent_snapshots,
        )  # fmt: skip


class _WorkerFields(NamedTuple):
    dispatcher_address: str
    worker_address: str
    port: int
    protocol: str
    heartbeat_interval_ms: int
    dispatcher_timeout_ms: int
    data_transfer_protocol: str | None
    data_transfer_address: str


@export("data.experimental.service.WorkerConfig")
class WorkerConfig(_WorkerFields):
    """The configuration of a worker.

    Example:
        >>> tf.data.experimental.service.WorkerConfig("localhost:5050").worker_address
        'localhost:%port%'
    """

    __slots__ = ()

    def __new__(
        cls,
        dispatcher_address: str,
        worker_address: str | None = None,
        port: int = 0,
        protocol: str | None = None,
        heartbeat_interval_ms: int | None = None,
        dispatcher_timeout_ms: int | None = None,
        data_transfer_protocol: str | None = None,
        data_transfer_address: str | None = None,
    ) -> WorkerConfig:
        """Fills in defaults.

        Args:
            dispatcher_address: Where the dispatcher listens.
            worker_address: The address of the worker for its peers; `%port%` stands for the port that it got.
            port: Where to listen; 0 for any free port.
            protocol: "grpc" if None.
            heartbeat_interval_ms: How often to report; 0 leaves it to the worker.
            dispatcher_timeout_ms: How long to try to reach the dispatcher; 0 leaves it to the worker.
            data_transfer_protocol: How elements travel.
            data_transfer_address: Where they are fetched; `%dts_port%` stands for the port of that server.
        """
        return super().__new__(
            cls, dispatcher_address, worker_address or "localhost:%port%", port, protocol or _PROTOCOL,
            heartbeat_interval_ms or 0, dispatcher_timeout_ms or 0, data_transfer_protocol,
            data_transfer_address or "localhost:%dts_port%",
        )  # fmt: skip
