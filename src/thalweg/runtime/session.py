"""Session: runs steps of a graph. A step is compiled once per combination of fetches and feeds, then only called."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

from thalweg import errors
from thalweg._native import core
from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.default_stack import default_graph_scope, default_session_scope, default_sessions
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import bfloat16, float16
from thalweg.graph.graph import Graph
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.placement.placer import LOCAL_DEVICE
from thalweg.planning.planned_step import PlannedStep
from thalweg.platform.forks import watch_lock
from thalweg.runtime.engine import Engine, EngineStep, LocalEngine
from thalweg.runtime.fetches import FetchPlan, resolve_feeds
from thalweg.runtime.install import register_python_kernels
from thalweg.runtime.native_errors import with_operation
from thalweg.runtime.targets import connector, target_text
from thalweg.runtime.waiting import watch


class _Step:
    """An installed step, and how to build the structure of values that the caller gets."""

    __slots__ = ("build", "compiled", "feeds", "installed", "mutations", "single")

    def __init__(self, installed: EngineStep, plan: FetchPlan, feeds: tuple[Tensor, ...], mutations: int) -> None:
        self.installed = installed
        self.compiled = installed.compiled
        self.build = plan.build
        self.single = plan.single
        self.feeds = feeds
        self.mutations = mutations


def _key_of_nested(fetches: Any, feed_dict: Any) -> Any:
    """A key for fetches that contain lists or dictionaries; None if there is none."""

    def frozen(fetch: Any) -> Any:
        kind = type(fetch)
        if kind is list or kind is tuple:
            return (kind, *[frozen(item) for item in fetch])
        if kind is dict:
            return (dict, *[(name, frozen(item)) for name, item in fetch.items()])
        hash(fetch)
        return fetch

    try:
        return (_key_of_nested, frozen(fetches)), tuple(feed_dict) if feed_dict else ()
    except TypeError:
        return None


def _wrong_number(error: OverflowError) -> TypeError:
    return TypeError(f"The value of a feed does not fit the type of its tensor: {error}.")


class BaseSession:
    """The base of Session and InteractiveSession. Any number of threads may call `run` at the same time."""

    def __init__(
        self, target: str = "", graph: Graph | None = None, config: Any = None, *, max_compiled_steps: int = 1000
    ) -> None:
        """Creates a session for `graph`, or for the default graph.

        Args:
            target: The server to connect to; this process if it is empty.
            graph: The graph.
            config: A ConfigProto.
            max_compiled_steps: How many compiled steps to keep, some 13 KB each for a small graph. Beyond that, those
                that were not run longest are compiled again when they are run.
        """
        if max_compiled_steps < 1:
            raise ValueError(f"max_compiled_steps must be positive, got {max_compiled_steps}.")
        self._most_steps = max_compiled_steps
        if graph is None:
            graph = get_default_graph()
        elif not isinstance(graph, Graph):
            raise TypeError(f'Argument `graph` must be a tf.Graph, but got "{type(graph).__name__}"')
        if config is not None and not hasattr(config, "operation_timeout_in_ms"):
            raise TypeError(f'Argument `config` must be a tf.ConfigProto, but got "{type(config).__name__}"')
        self._graph = graph
        self._target = target
        self._config = config
        self._timeout_ms = int(config.operation_timeout_in_ms) if config is not None else 0
        watch(self)
        if config is not None and config.intra_op_parallelism_threads > 0:
            core.set_intra_op_threads(config.intra_op_parallelism_threads)
        self._closed = False
        self._lock = threading.Lock()
        watch_lock(self)
        self._steps_by_call: dict[Any, _Step] = {}
        self._steps: dict[Any, EngineStep] = {}
        self._partial_runs: dict[str, Any] = {}
        self._cost_requests = itertools.count(1)
        self._engine: Engine
        if target:
            target = target_text(target)
            self._engine = connector(target).connect(target, config)
        else:
            self._engine = LocalEngine(config)

    def _precision(self) -> Any:
        """The 16-bit type to compute products in, from the session's options or from the graph's attachments."""
        if self._config is not None:
            options = self._config.graph_options.rewrite_options
            if options.auto_mixed_precision == options.ON:
                return float16
            if options.auto_mixed_precision_onednn_bfloat16 == options.ON:
                return bfloat16
        return self._graph._attachments.get("mixed_precision")

    @property
    def graph(self) -> Graph:
        """The graph that the session runs."""
        return self._graph

    @property
    def graph_def(self) -> Any:
        """A GraphDef of the session's graph."""
        infer_shapes = self._config is not None and self._config.graph_options.infer_shapes
        return self._graph.as_graph_def(add_shapes=bool(infer_shapes))

    @property
    def sess_str(self) -> str:
        """The target that the session connects to."""
        return self._target

    def list_devices(self) -> list[Any]:
        """The devices that steps of this session can use."""
        return list(self._engine.list_devices())

    def as_default(self) -> default_session_scope[Self]:
        """A context in which `tensor.eval()` and `operation.run()` use this session. Leaving it does not close it."""
        return default_session_scope(self)

    def close(self) -> None:
        """Ends the session: steps that are running fail with CancelledError, and its variables are gone."""
        with self._lock:
            self._closed = True
            self._steps_by_call.clear()
            self._steps.clear()
            partial_runs = list(self._partial_runs.values())
            self._partial_runs.clear()
        self._engine.close()
        del partial_runs

    def __repr__(self) -> str:
        closed = ", closed" if self._closed else ""
        where = f"target={self._target!r}, " if self._target else ""
        return f"<tf.{type(self).__name__} {where}graph of {len(self._graph.get_operations())} operations{closed}>"

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Runs one step and returns the values of `fetches`, in the same structure.

        Args:
            fetches: A tensor, operation, variable, sparse tensor or name, or any nesting of these in lists, tuples,
                namedtuples and dictionaries. Operations give None.
            feed_dict: From tensors (any tensor can be fed) to values that replace theirs in this step.
            options: A RunOptions: timeout_in_ms, trace_level, numeric checks (runtime/numerics.py).
            run_metadata: A RunMetadata that is filled with what `options` asks for.

        Raises:
            RuntimeError: If the session is closed.
            TypeError: If a fetch or feed is not a graph element.
            ValueError: If a fetch or feed is not in the graph, or a value does not fit the shape of its tensor.
            errors.OpError: If an operation fails.

        Example:
            >>> x = tf.placeholder(tf.float32)
            >>> with tf.Session() as sess:
            ...     print(sess.run(x + 1.0, {x: 2.0}))
            3.0
        """
        if options is None and run_metadata is None:
            try:
                key = (
                    ((list, *fetches) if type(fetches) is list else fetches),
                    tuple(feed_dict) if feed_dict else (),
                )
                step = self._steps_by_call.get(key)
            except TypeError:
                key = _key_of_nested(fetches, feed_dict)
                step = self._steps_by_call.get(key) if key is not None else None
            if step is not None and step.mutations == self._graph._mutations:
                try:
                    values = list(feed_dict.values()) if feed_dict else ()
                    if step.single:
                        return step.compiled.run_one(values, self._timeout_ms)
                    return step.build(step.compiled.run(values, self._timeout_ms))
                except (errors.OpError, OverflowError) as e:
                    raise self._explained(e) from None
            return self._run_new(fetches, feed_dict, key)
        return self._run_with_options(fetches, feed_dict, options, run_metadata)

    def _run_new(self, fetches: Any, feed_dict: Any, key: Any) -> Any:
        """Resolves fetches and feeds, compiles the step if it is new, and remembers it for the fast path."""
        plan, feeds, values, step = self._resolve(fetches, feed_dict)
        plain = key is not None and list(feed_dict or ()) == list(feeds)
        try:
            if plain:
                self._steps_by_call[key] = step
            return plan.build(step.compiled.run(values, self._timeout_ms))
        except (errors.OpError, OverflowError) as e:
            raise self._explained(e) from None

    def _resolve(self, fetches: Any, feed_dict: Any) -> tuple[FetchPlan, tuple[Tensor, ...], list[Any], _Step]:
        self._check_open()
        if feed_dict is not None and not hasattr(feed_dict, "items"):
            raise TypeError(f"feed_dict must be a dictionary, got {feed_dict!r}.")
        plan = FetchPlan(self._graph, fetches, self)
        given = resolve_feeds(self._graph, feed_dict) if feed_dict else {}
        feeds = tuple(given)
        return plan, feeds, list(given.values()), self._compiled(plan, feeds)

    def _prepared(self, fetches: Any, feed_dict: Any) -> tuple[_Step, list[Any]]:
        """The compiled step, which is remembered, and the values that it is to be fed with."""
        key = _key_of_nested(fetches, feed_dict)
        step = self._steps_by_call.get(key)
        if step is not None and step.mutations == self._graph._mutations:
            return step, list(feed_dict.values()) if feed_dict else []
        _, feeds, values, step = self._resolve(fetches, feed_dict)
        if key is not None and list(feed_dict or ()) == list(feeds):
            if len(self._steps_by_call) >= 2 * self._most_steps:  # The same step can be asked for in many forms.
                self._steps_by_call.clear()
            self._steps_by_call[key] = step
        return step, values

    def _planned_step(self, fetches: Any, feed_dict: Any = None) -> PlannedStep:
        """The step that `run` runs for these fetches and feeds, as a value."""
        planned = self._prepared(fetches, feed_dict)[0].installed.planned
        if planned is None:
            raise errors.UnimplementedError(None, None, f"The step was planned by another process ({self._target}).")
        return planned

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")
        if not self._graph._operations_by_name:
            raise RuntimeError("The Session graph is empty. Add operations to the graph before calling run().")

    def _compiled(self, plan: FetchPlan, feeds: tuple[Tensor, ...]) -> _Step:
        mutations = self._graph._mutations
        signature = (tuple(plan.tensors), tuple(plan.targets), feeds, mutations)
        known = self._steps.get(signature)
        if known is None:
            try:
                register_python_kernels()
                with self._graph._lock:
                    known = self._steps.get(signature)  # Another thread may have installed it meanwhile.
                    if known is None:
                        known = self._installed(feeds, plan.tensors, plan.targets)
                        self._remember(signature, known)
            except errors.OpError as e:
                raise with_operation(e, self._graph) from None
            except MemoryError as e:
                raise errors.ResourceExhaustedError(None, None, f"out of memory while a step was compiled: {e}") from e
        else:
            with self._lock:  # It is the last to be forgotten now.
                self._steps.pop(signature, None)
                self._steps[signature] = known
        return _Step(known, plan, feeds, mutations)

    def _remember(self, signature: Any, step: EngineStep) -> None:
        """Keeps a compiled step; forgets those that were not asked for longest if there are too many."""
        with self._lock:
            if len(self._steps) >= self._most_steps:
                for oldest in list(itertools.islice(self._steps, max(1, self._most_steps // 4))):
                    del self._steps[oldest]
                # The calls that are still made find their steps again, which makes these the last to be forgotten.
                self._steps_by_call.clear()
            self._steps[signature] = step

    def _installed(
        self, feeds: Sequence[Tensor], fetches: Sequence[Tensor], targets: Sequence[Operation], piecewise: bool = False
    ) -> EngineStep:
        """Plans and installs a step. Called with the graph's lock."""
        return self._engine.install(self._graph, feeds, fetches, targets, self._precision(), piecewise)

    def _run_with_options(self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any) -> Any:
        # Start-up time: few steps have options.
        from thalweg.runtime import numerics
        from thalweg.runtime import run_metadata as metadata

        traced = run_metadata is not None and options is not None and options.trace_level > 0
        checked = numerics.is_requested(options)
        timeout = int(options.timeout_in_ms) if options is not None and options.timeout_in_ms else self._timeout_ms
        found: list[numerics.Origin] = []
        if traced:
            result, step, trace = self._run_traced(fetches, feed_dict, timeout, checked)
            metadata.fill(run_metadata, step.compiled, trace, step.installed.planned)
            found = [numerics.Origin(*finding) for finding in trace.findings]
        else:
            step, values = self._prepared(fetches, feed_dict)
            try:
                if checked:
                    fetched, findings = step.compiled.run_checked(values, timeout)
                    found = [numerics.Origin(*finding) for finding in findings]
                else:
                    fetched = step.compiled.run(values, timeout)
            except errors.OpError as e:
                raise with_operation(e, self._graph) from None
            result = step.build(fetched)
        if run_metadata is not None:
            if traced or not checked:
                self._fill_cost_graph(run_metadata, step.compiled)
            if checked:
                numerics.fill(run_metadata, found, LOCAL_DEVICE)
            if options is not None and options.output_partition_graphs:
                self._engine.fill_partition_graphs(run_metadata, step.installed)
        elif found:
            raise numerics.error(found[0], self._graph)
        return result

    def _run_traced(self, fetches: Any, feed_dict: Any, timeout_ms: int = 0, checked: bool = False) -> tuple[Any, ...]:
        """Runs one step observed: the values of the fetches, the step, and the core's Trace of it.

        It is the very step that runs without an observer.
        """
        step, values = self._prepared(fetches, feed_dict)
        try:
            fetched, trace = step.compiled.run_traced(values, timeout_ms, numerics=checked)
        except errors.OpError as e:
            raise with_operation(e, self._graph) from None
        return step.build(fetched), step, trace

    def _fill_cost_graph(self, run_metadata: Any, compiled: Any) -> None:
        """Fills in the costs of nodes: in every n-th step with metadata, if `build_cost_model` is n."""
        if self._config is not None and self._config.graph_options.build_cost_model > 1:
            options = self._config.graph_options
            number = next(self._cost_requests) - options.build_cost_model_after
            if number <= 0 or number % options.build_cost_model:
                return
        from thalweg.runtime.run_metadata import fill_cost_graph  # Start-up time: see `_run_with_options`.

        graph = self._engine.measured_graph(compiled)
        if graph is not None:
            fill_cost_graph(run_metadata, graph, self._engine.costs(), LOCAL_DEVICE)

    def make_callable(self, fetches: Any, feed_list: Any = None, accept_options: bool = False) -> Callable[..., Any]:
        """Returns a function that runs the step: it takes the values of `feed_list` as arguments, in order."""
        if feed_list is not None and not isinstance(feed_list, (list, tuple)):
            raise TypeError("Argument `feed_list` must be a list or tuple.")
        from thalweg.runtime.step_callable import step_callable  # Start-up time: few programs use it.

        runs_as_here = type(self).run is BaseSession.run
        return step_callable(self, fetches, list(feed_list or ()), accept_options, runs_as_here)

    def _explained(self, error: errors.OpError | OverflowError) -> Exception:
        """The error of a step as the caller gets it."""
        return _wrong_number(error) if isinstance(error, OverflowError) else with_operation(error, self._graph)

    def _run_repeatedly(self, fetches: Any, should_stop: Callable[[], bool]) -> None:
        """Runs a step without feeds again and again until it fails, or `should_stop`, asked now and then, says so.

        The results are dropped, and no Python runs in between.
        """
        step = self._resolve(fetches, None)[3]
        try:
            step.compiled.run_repeatedly(should_stop)
        except errors.OpError as e:
            raise with_operation(e, self._graph) from None

    def partial_run_setup(self, fetches: Any, feeds: Any = None) -> str:
        """Prepares a step that is fed and fetched in several `partial_run` calls.

        Args:
            fetches: All that will be fetched.
            feeds: All tensors that will be fed.

        Returns:
            A handle for `partial_run`.
        """
        from thalweg.runtime.partial_run import PartialRun  # Start-up time: few steps run in pieces.

        self._check_open()

        def start(feeds: list[Tensor], fetches: list[Tensor], targets: list[Operation]) -> Any:
            register_python_kernels()
            with self._graph._lock:
                step = self._installed(feeds, fetches, targets, piecewise=True)
            return self._engine.partial_step(step)

        try:
            run = PartialRun(self._graph, fetches, list(feeds or ()), start)
        except errors.OpError as e:
            raise with_operation(e, self._graph) from None
        with self._lock:
            handle = f"partial_run_{len(self._partial_runs)}_{id(run)}"
            self._partial_runs[handle] = run
        return handle

    def partial_run(self, handle: str, fetches: Any, feed_dict: Any = None) -> Any:
        """Continues a step that `partial_run_setup` prepared: gives it more feeds and waits for these fetches."""
        self._check_open()
        run = self._partial_runs.get(handle)
        if run is None:
            raise errors.InvalidArgumentError(
                None, None, f"Must run 'setup' before performing partial runs: {handle!r}"
            )
        try:
            result = run.step(fetches, feed_dict or {})
        except errors.OpError as e:
            raise with_operation(e, self._graph) from None
        if run.finished:
            with self._lock:
                self._partial_runs.pop(handle, None)
        return result

    @staticmethod
    def reset(target: str = "", containers: Iterable[str] | None = None, config: Any = None) -> None:
        """Forgets the state in named containers, or in all of them: of this process, or of a target's cluster."""
        names = [str(name) for name in containers or ()]
        if target:
            target = target_text(target)
            connector(target).reset(target, names, config)
        else:
            core.reset_containers(names)


@export("Session")
class Session(BaseSession):
    """Runs the operations of a graph; usable in a `with` block, which closes it.

    Example:
        >>> with tf.Session() as sess:
        ...     print(sess.run(tf.constant(2) * 3))
        6
    """

    def __init__(
        self, target: str = "", graph: Graph | None = None, config: Any = None, *, max_compiled_steps: int = 1000
    ) -> None:
        """Creates a session for `graph`, or for the default graph; see BaseSession."""
        super().__init__(target, graph, config, max_compiled_steps=max_compiled_steps)
        self._open_scopes: list[tuple[Any, Any]] = []

    def __enter__(self) -> Session:
        """Makes the session and its graph the defaults of this thread."""
        if self._open_scopes:
            raise RuntimeError(
                "Session context managers are not re-entrant: this session is entered already. Use "
                "`Session.as_default()` to make it the default once more."
            )
        graph_scope = default_graph_scope(self._graph)
        session_scope = self.as_default()
        graph_scope.__enter__()
        session_scope.__enter__()
        self._open_scopes.append((graph_scope, session_scope))
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        graph_scope, session_scope = self._open_scopes.pop()
        session_scope.__exit__(exc_type, exc_value, traceback)
        graph_scope.__exit__(exc_type, exc_value, traceback)
        self.close()


@export("InteractiveSession")
class InteractiveSession(BaseSession):
    """A session that makes itself the default at once, for use in a shell."""

    def __init__(self, target: str = "", graph: Graph | None = None, config: Any = None) -> None:
        """Creates the session, and makes it and its graph the defaults of this thread until `close()`."""
        super().__init__(target, graph, config)
        self._graph_scope = default_graph_scope(self._graph) if graph is not None else None
        if self._graph_scope is not None:
            self._graph_scope.__enter__()
        self._session_scope = self.as_default()
        self._session_scope.__enter__()
        self._entered = True

    def close(self) -> None:
        """Ends the session and restores the defaults."""
        super().close()
        if not self._entered:
            return
        self._entered = False
        stack = default_sessions.stack
        if self in stack:
            stack.remove(self)
        if self._graph_scope is not None:
            self._graph_scope.__exit__(None, None, None)
