"""TensorFlow's MasterService on a Thalweg server, spoken by a raw gRPC client; and what reaches the port besides."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc
import numpy as np
import pytest

import thalweg as tf
from thalweg.dist.tensorflow_channel import speaks_http2
from thalweg.dist.tensorflow_graph import SentGraph
from thalweg.dist.tensorflow_messages import messages

Call = Callable[..., Any]


@pytest.fixture
def server() -> Iterator[tf.train.Server]:
    made = tf.train.Server.create_local_server(tensorflow_clients=True)
    yield made
    made.stop()


def _address(server: tf.train.Server) -> tuple[str, int]:
    host, _, port = server.target.removeprefix("grpc://").rpartition(":")
    return host, int(port)


@pytest.fixture
def call(server: tf.train.Server) -> Iterator[Call]:
    """Calls a method of the service with the fields of its request; the future of the response if asked to."""
    with grpc.insecure_channel(server.target.removeprefix("grpc://")) as channel:

        def invoke(method: str, later: bool = False, **fields: Any) -> Any:
            stub = channel.unary_unary(
                f"/tensorflow.MasterService/{method}",
                messages()[f"{method}Request"].SerializeToString,
                messages()[f"{method}Response"].FromString,
            )
            request = messages()[f"{method}Request"](**fields)
            return stub.future(request) if later else stub(request)

        yield invoke


def _session(call: Call) -> str:
    return str(call("CreateSession", graph_def=tf.get_default_graph().as_graph_def()).session_handle)


def _feed(name: str, value: Any) -> Any:
    return messages()["NamedTensor"](name=name, tensor=tf.make_tensor_proto(value))


def test_messages_have_the_numbers_of_tensorflow() -> None:
    made = messages()
    assert made["ExtendSessionResponse"](new_graph_version=1).SerializeToString() == b"\x20\x01"
    assert made["RunStepRequest"](store_errors_in_response_body=True).SerializeToString() == b"\x38\x01"
    assert made["DeviceAttributes"](incarnation=2).SerializeToString() == b"\x31\x02" + b"\0" * 7
    step = made["RunStepResponse"].FromString(b"\x0a\x03\x0a\x01x\x18\x03\x22\x02no")
    assert (step.tensor[0].name, step.status_code, step.status_error_message) == ("x", 3, "no")


def test_a_session_is_created_extended_run_and_closed(call: Call) -> None:
    x = tf.placeholder(tf.float32, [None], name="x")
    tf.multiply(x, 2.0, name="y")
    handle = _session(call)
    graph = tf.get_default_graph()
    known = len(graph.get_operations())
    tf.add(graph.get_tensor_by_name("y:0"), 1.0, name="z")
    extended = call("ExtendSession", session_handle=handle, graph_def=graph.as_graph_def(from_version=known))
    assert extended.new_graph_version > known
    done = call("RunStep", session_handle=handle, feed=[_feed("x:0", [1.0, 2.0])], fetch=["z:0", "y:0"], target=["y"])
    assert [each.name for each in done.tensor] == ["z:0", "y:0"]
    np.testing.assert_array_equal(tf.make_ndarray(done.tensor[0].tensor), [3.0, 5.0])
    devices = call("ListDevices", session_handle=handle)
    assert [each.device_type for each in devices.local_device] == ["CPU"]
    call("CloseSession", session_handle=handle)
    with pytest.raises(grpc.RpcError) as caught:
        call("RunStep", session_handle=handle, fetch=["z:0"])
    assert caught.value.code() is grpc.StatusCode.ABORTED


def test_state_is_shared_with_the_sessions_of_thalweg(server: tf.train.Server, call: Call) -> None:
    v = tf.get_variable("v", initializer=4.0)
    handle = _session(call)
    call("RunStep", session_handle=handle, target=[v.initializer.name])
    call("CloseSession", session_handle=handle)
    with tf.Session(server.target) as sess:
        assert sess.run(v) == 4.0
    call("Reset")
    with tf.Session(server.target) as sess, pytest.raises(tf.errors.FailedPreconditionError):
        sess.run(v)


def test_errors_travel_as_status_or_in_the_response(call: Call) -> None:
    index = tf.placeholder(tf.int32, [], name="index")
    tf.gather([1, 2], index, name="look_up")
    step = {"session_handle": _session(call), "feed": [_feed("index:0", np.int32(9))], "fetch": ["look_up:0"]}
    with pytest.raises(grpc.RpcError) as caught:
        call("RunStep", **step)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "[[{{node look_up}}]]" in str(caught.value.details())
    answered = call("RunStep", **step, store_errors_in_response_body=True)
    assert answered.status_code == tf.errors.INVALID_ARGUMENT and "{{node look_up}}" in answered.status_error_message
    missing = call("RunStep", **{**step, "fetch": ["nowhere:0"]}, store_errors_in_response_body=True)
    assert missing.status_code == tf.errors.NOT_FOUND
    wrong = call("RunStep", **{**step, "feed": [_feed("index:0", [1, 2])]}, store_errors_in_response_body=True)
    assert wrong.status_code == tf.errors.INVALID_ARGUMENT


def test_graphs_that_cannot_be_read_are_refused(call: Call) -> None:
    from tensorboard.compat.proto.graph_pb2 import GraphDef

    for op, code in (("NoSuchOp", grpc.StatusCode.NOT_FOUND), ("Neg", grpc.StatusCode.INVALID_ARGUMENT)):
        graph_def = GraphDef()
        graph_def.node.add(name="n", op=op)
        with pytest.raises(grpc.RpcError) as caught:
            call("CreateSession", graph_def=graph_def)
        assert caught.value.code() is code


def test_callables_and_partial_runs(call: Call) -> None:
    a, b = tf.placeholder(tf.float32, [], name="a"), tf.placeholder(tf.float32, [], name="b")
    tf.multiply(tf.add(a, 1.0, name="first"), b, name="second")
    handle = _session(call)
    made = call("MakeCallable", session_handle=handle, options={"feed": ["b:0", "a:0"], "fetch": ["second:0"]}).handle
    done = call("RunCallable", session_handle=handle, handle=made, feed=[tf.make_tensor_proto(v) for v in (2.0, 3.0)])
    assert tf.make_ndarray(done.fetch[0]) == 8.0
    call("ReleaseCallable", session_handle=handle, handle=made)
    with pytest.raises(grpc.RpcError):
        call("RunCallable", session_handle=handle, handle=made)
    partial = call("PartialRunSetup", session_handle=handle, feed=["a:0", "b:0"], fetch=["first:0", "second:0"])
    for feed, fetch, value in ((("a:0", 1.0), "first:0", 2.0), (("b:0", 5.0), "second:0", 10.0)):
        done = call(
            "RunStep", session_handle=handle, partial_run_handle=partial.partial_run_handle, feed=[_feed(*feed)],
            fetch=[fetch],
        )  # fmt: skip
        assert tf.make_ndarray(done.tensor[0].tensor) == value


def test_a_step_ends_when_its_client_gives_up(server: tf.train.Server, call: Call) -> None:
    queue = tf.FIFOQueue(1, [tf.int32], [[]], shared_name="q")
    queue.dequeue(name="taken")
    queue.enqueue(7, name="put")
    handle = _session(call)
    waiting = call("RunStep", later=True, session_handle=handle, fetch=["taken:0"])
    while server._task.network.num_steps == 0:
        threading.Event().wait(0.01)
    waiting.cancel()
    while server._task.network.num_steps > 0:
        threading.Event().wait(0.01)
    call("RunStep", session_handle=handle, target=["put"])
    done = call("RunStep", session_handle=handle, fetch=["taken:0"])
    assert tf.make_ndarray(done.tensor[0].tensor) == 7


def test_a_server_without_the_opt_in_does_not_answer_http2() -> None:
    server = tf.train.Server.create_local_server()
    try:
        assert not speaks_http2(server.target.removeprefix("grpc://"))
    finally:
        server.stop()
    with pytest.raises(ValueError, match="need the protocol 'grpc'"):
        tf.train.Server({"local": ["localhost:0"]}, protocol="thalweg", tensorflow_clients=True)


@pytest.fixture
def http2_only() -> Iterator[str]:
    """The address of a gRPC server without any services."""
    server = grpc.server(futures.ThreadPoolExecutor(1))
    port = server.add_insecure_port("localhost:0")
    server.start()
    yield f"localhost:{port}"
    server.stop(None).wait()


def test_a_key_is_not_given_up_for_a_server_of_another_protocol(
    http2_only: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tf.Session(f"grpc://{http2_only}") as sess, pytest.raises(tf.errors.UnimplementedError):
        sess.run(tf.constant(1))  # Taken for a TensorFlow server, which it is not.
    monkeypatch.setenv("THALWEG_CLUSTER_KEY", "secret")
    with pytest.raises(tf.errors.UnauthenticatedError, match=r"tensorflow\+grpc"):
        tf.Session(f"grpc://{http2_only}")
    with pytest.raises(tf.errors.UnauthenticatedError, match="key"):
        tf.Session.reset(f"grpc://{http2_only}")


def test_garbage_costs_only_its_connection(server: tf.train.Server, call: Call) -> None:
    tf.constant(3.0, name="c")
    handle = _session(call)
    assert speaks_http2(server.target.removeprefix("grpc://"))
    http2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    for opening in (http2 + b"\xff" * 4096, b"PRI * HT" + b"garbage" * 1000, b"PRI", b"GET / HTTP"):
        with socket.create_connection(_address(server), 10.0) as caller:
            _speak(caller, opening)
    with socket.create_connection(_address(server)) as half_open:
        half_open.sendall(b"PRI * HTTP/2.0\r\n")
        done = call("RunStep", session_handle=handle, fetch=["c:0"])
    assert tf.make_ndarray(done.tensor[0].tensor) == 3.0
    with tf.Session(server.target) as sess:
        assert sess.run(tf.constant(1)) == 1


def _speak(caller: socket.socket, opening: bytes) -> None:
    """Sends bytes and the end of the connection, and waits until the other side ends it, too."""
    with contextlib.suppress(OSError):  # The server may have closed it already.
        caller.sendall(opening)
        caller.shutdown(socket.SHUT_WR)
        while caller.recv(4096):
            pass


def test_only_new_nodes_and_the_functions_that_they_call_are_sent() -> None:
    @tf.experimental.Defun(tf.float32)
    def double(x: Any) -> Any:
        return x + x

    a = tf.constant(1.0, name="a")
    b = double(a, name="b")
    tf.no_op(name="not_needed")
    sent = SentGraph(tf.get_default_graph())
    first = sent.missing([a.op])
    assert [node.name for node in first.node] == ["a"] and not first.library.function
    sent.sent(first)
    second = sent.missing([b.op])
    assert [node.name for node in second.node] == ["b"] and len(second.library.function) == 1
    sent.sent(second)
    assert not sent.missing([b.op]).node
    b.op._add_control_input(tf.no_op(name="new"))
    assert sent.missing([b.op]) is None  # The server has another 'b'.
