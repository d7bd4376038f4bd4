"""Mutual TLS: encrypted clusters work; peers without a valid certificate are refused with a reason on both sides."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import thalweg as tf
from tests.dist.hostile import Caller
from tests.dist.launched import wait_until
from tests.dist.processes import Processes
from thalweg.dist.certificates import Authority
from thalweg.dist.ports import free_ports
from thalweg.dist.tls import TLSContexts, tls_environment, tls_options

TLSOptions = tf.distribute.TLSOptions


class Issuer:
    """An authority whose certificates are files of a test."""

    def __init__(self, folder: Path, name: str) -> None:
        """Makes the authority's key and certificate."""
        self._folder, self._name = folder, name
        self._authority = Authority(f"authority {name}")
        self.file = self._write("authority.pem", self._authority.certificate)

    def _write(self, name: str, text: str) -> str:
        path = self._folder / f"{self._name}-{name}"
        path.write_text(text)
        return str(path)

    def options(
        self, name: str, hosts: tuple[str, ...] = ("localhost", "127.0.0.1"), expired: bool = False, trusts: str = ""
    ) -> TLSOptions:
        """The files of one process."""
        made = self._authority.sign(name, hosts, ended_days_ago=1.0 if expired else 0.0)
        files = self._write(f"{name}.pem", made.certificate), self._write(f"{name}.key", made.key)
        return TLSOptions(*files, trusts or self.file)


@pytest.fixture
def issuer(tmp_path: Path) -> Issuer:
    return Issuer(tmp_path, "ours")


@pytest.fixture(autouse=True)
def options_of_process() -> Iterator[None]:
    yield
    tf.distribute.set_tls_options(None)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    logger = logging.getLogger("thalweg")
    logger.addHandler(caplog.handler)
    yield caplog
    logger.removeHandler(caplog.handler)


@contextlib.contextmanager
def cluster(tls: TLSOptions | None, tasks: int = 1, protocol: str = "thalweg+tcp") -> Iterator[list[tf.train.Server]]:
    """Tasks of one process that reach each other by TCP."""
    spec = tf.train.ClusterSpec({"worker": [f"localhost:{port}" for port in free_ports(tasks)]})
    servers = [tf.train.Server(spec, "worker", index, protocol, tls=tls) for index in range(tasks)]
    try:
        yield servers
    finally:
        for server in servers:
            server.stop()


def elsewhere(server: tf.train.Server, protocol: str = "thalweg+tcp") -> str:
    """A target with which a session does not find the server in its own process."""
    return f"{protocol}://127.0.0.1:{server.target.rpartition(':')[2]}"


def test_steps_of_an_encrypted_cluster_move_large_tensors_in_both_directions(issuer: Issuer) -> None:
    with cluster(issuer.options("task"), 3) as servers:
        x = tf.placeholder(tf.float32, [None])
        words = tf.placeholder(tf.string, [None])
        with tf.device("/job:worker/task:1"):
            doubled = x * 2.0
            joined = tf.string_join([words, words])
        with tf.device("/job:worker/task:2"):
            result = doubled + x
        value = np.arange(5_000_000, dtype=np.float32)
        with tf.Session(servers[0].target) as sess:
            for _ in range(3):
                got, texts = sess.run([result, joined], {x: value, words: ["a", "b" * 100_000]})
                np.testing.assert_array_equal(got, value * 3.0)
                assert texts[1] == b"b" * 200_000


def test_a_client_with_a_certificate_uses_an_encrypted_task(issuer: Issuer) -> None:
    with cluster(issuer.options("task")) as servers:
        tf.distribute.set_tls_options(issuer.options("client"))
        v = tf.get_variable("v", [1000, 1000], initializer=tf.ones_initializer())
        with tf.Session(elsewhere(servers[0])) as sess:
            sess.run(v.initializer)
            assert sess.run(tf.reduce_sum(v)) == 1e6
            np.testing.assert_array_equal(sess.run(v.assign_add(v)), np.full([1000, 1000], 2.0))


def test_processes_of_one_host_and_user_still_share_memory(issuer: Issuer) -> None:
    with cluster(issuer.options("task"), protocol="grpc") as servers, tf.Session(elsewhere(servers[0], "grpc")) as sess:
        assert sess.run(tf.constant(3.0) * 2.0) == 6.0  # Without TLS options of its own.
        (connection,) = servers[0]._task.network.connections()
        assert connection.shares_memory


def refused(server: tf.train.Server) -> str:
    """The message with which a client of this process is refused."""
    with pytest.raises(tf.errors.UnauthenticatedError) as found, tf.Session(elsewhere(server)) as sess:
        sess.run(tf.constant(1.0))
    return found.value.message


def test_a_client_without_tls_is_told_that_the_task_needs_it(issuer: Issuer, log: pytest.LogCaptureFixture) -> None:
    with cluster(issuer.options("task")) as servers:
        message = refused(servers[0])
        assert "admits only callers that use TLS" in message and "THALWEG_TLS_CERTIFICATE" in message
        wait_until(lambda: "has refused a caller at 127.0.0.1" in log.text)


def test_a_client_with_tls_is_told_that_the_task_has_none(issuer: Issuer, log: pytest.LogCaptureFixture) -> None:
    with cluster(None) as servers:
        tf.distribute.set_tls_options(issuer.options("client"))
        assert "does not speak TLS: it was started without certificates" in refused(servers[0])
        wait_until(lambda: "the caller speaks TLS, and this task was started without TLS" in log.text)


def test_a_client_of_another_authority_is_refused(
    issuer: Issuer, tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    server = issuer.options("task")
    with cluster(server) as servers:
        stranger = Issuer(tmp_path, "theirs").options("client", trusts=issuer.file)
        tf.distribute.set_tls_options(stranger)
        message = refused(servers[0])
        assert f"refuses the certificate {stranger.certificate} of this process" in message
        assert "authority" in message
        wait_until(lambda: f"is not signed by the authority in {server.authority}" in log.text)


def test_a_task_of_another_authority_is_refused(issuer: Issuer, tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    server = Issuer(tmp_path, "theirs").options("task", trusts=issuer.file)
    with cluster(server) as servers:
        client = issuer.options("client")
        tf.distribute.set_tls_options(client)
        message = refused(servers[0])
        assert "the certificate of the task at 127.0.0.1" in message
        assert f"is not signed by the authority in {client.authority}" in message
        wait_until(lambda: f"refuses the certificate {server.certificate} of this process" in log.text)


def test_expired_certificates_are_refused_on_both_sides(issuer: Issuer, log: pytest.LogCaptureFixture) -> None:
    with cluster(issuer.options("task")) as servers:
        expired = issuer.options("late", expired=True)
        tf.distribute.set_tls_options(expired)
        assert f"refuses the certificate {expired.certificate} of this process: it has expired" in refused(servers[0])
        wait_until(lambda: "is not valid at this time: certificate has expired" in log.text)
    with cluster(expired) as servers:
        tf.distribute.set_tls_options(issuer.options("client"))
        assert "is not valid at this time: certificate has expired" in refused(servers[0])


def test_a_certificate_for_another_host_is_refused(issuer: Issuer, log: pytest.LogCaptureFixture) -> None:
    with cluster(issuer.options("task", hosts=("another.example",))) as servers:
        tf.distribute.set_tls_options(issuer.options("client"))
        message = refused(servers[0])
        assert "not for the name '127.0.0.1'" in message
        wait_until(lambda: "refuses the certificate" in log.text)


def test_a_name_of_the_cluster_can_take_the_place_of_hosts(issuer: Issuer) -> None:
    with cluster(issuer.options("task", hosts=("cluster.example",))._replace(name="cluster.example"), 2) as servers:
        with tf.device("/job:worker/task:1"):
            remote = tf.constant([1.0, 2.0]) * 2.0
        with tf.Session(servers[0].target) as sess:
            assert list(sess.run(remote)) == [2.0, 4.0]


def test_a_tls_caller_without_a_certificate_is_refused(issuer: Issuer, log: pytest.LogCaptureFixture) -> None:
    options = issuer.options("task")
    with cluster(options) as servers:
        context = ssl.create_default_context(cafile=options.authority)
        port = int(servers[0].target.rpartition(":")[2])
        with (
            socket.create_connection(("localhost", port), 30) as plain,
            pytest.raises(ssl.SSLError, match="certificate required"),
            context.wrap_socket(plain, server_hostname="localhost") as caller,
        ):
            caller.recv(1)
        wait_until(lambda: "shows no certificate" in log.text)


def test_garbage_and_silence_cost_the_caller_its_connection(issuer: Issuer) -> None:
    options = issuer.options("task")
    with cluster(options) as servers:
        address = servers[0].target.partition("://")[2]
        openings = (
            b"",
            b"\x16",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 600,
            b"PRI * HTTP/2.0\r\n\r\n",
        )
        callers = [Caller(address) for _ in openings]
        for caller, opening in zip(callers, openings, strict=True):
            caller.send(opening)
        tf.distribute.set_tls_options(issuer.options("client"))
        context = TLSContexts(issuer.options("liar")).caller
        with Caller(address) as trusted, context.wrap_socket(trusted.socket, server_hostname="localhost") as liar:
            assert liar.recv(1) == b"\x01"
            liar.sendall(b"garbage" * 100)  # With a valid certificate.
            with contextlib.suppress(OSError):
                assert not liar.recv(100)
        with tf.Session(elsewhere(servers[0])) as sess:
            assert sess.run(tf.constant(1.0)) == 1.0
        for caller in callers:
            caller.socket.close()


def test_a_wrong_key_is_refused_inside_of_tls(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THALWEG_CLUSTER_KEY", "one")
    with cluster(issuer.options("task")) as servers:
        tf.distribute.set_tls_options(issuer.options("client"))
        monkeypatch.setenv("THALWEG_CLUSTER_KEY", "another")
        assert "does not know the cluster's key" in refused(servers[0])


def test_a_stopped_task_ends_the_steps_that_need_it(issuer: Issuer) -> None:
    with cluster(issuer.options("task"), 2) as servers:
        with tf.device("/job:worker/task:1"):
            remote = tf.FIFOQueue(1, [tf.float32], shapes=[[]]).dequeue()
            one = tf.constant(1.0)
        with tf.Session(servers[0].target) as sess:
            assert sess.run(one) == 1.0
            servers[1].stop()
            with pytest.raises(tf.errors.UnavailableError):
                sess.run(remote)


@pytest.mark.processes
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, in order to be another user")
def test_another_user_of_the_host_cannot_use_the_local_socket_instead(issuer: Issuer) -> None:
    options = tls_environment(issuer.options("task"))
    with Processes(environment=options, worker=1) as processes:
        port = processes.jobs["worker"][0].rpartition(":")[2]
        for user in (0, 65534):
            with Caller(processes.jobs["worker"][0]) as caller, socket.socket(socket.AF_UNIX) as local:
                os.seteuid(user)
                try:
                    local.connect(f"\0thalweg.{port}")
                finally:
                    os.seteuid(0)
                caller.socket.close()
                caller.socket = local
                assert caller.shake_hands(b"") == (user == 0)


def test_options_come_from_the_environment_as_paths_or_texts(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    options = issuer.options("task")
    monkeypatch.setenv("THALWEG_TLS_CERTIFICATE", options.certificate)
    with pytest.raises(ValueError, match="THALWEG_TLS_KEY, THALWEG_TLS_AUTHORITY"):
        tls_options()
    monkeypatch.setenv("THALWEG_TLS_KEY", options.key)
    monkeypatch.setenv("THALWEG_TLS_AUTHORITY", options.authority)
    assert tls_options() == options
    TLSContexts(TLSOptions(*(Path(file).read_text() for file in options[:3])))


def test_files_that_cannot_be_used_are_named(issuer: Issuer, tmp_path: Path) -> None:
    one, other = issuer.options("one"), issuer.options("other")
    missing = str(tmp_path / "missing.pem")
    with pytest.raises(ValueError, match=r"authority cannot be read from .*missing\.pem"):
        TLSContexts(one._replace(authority=missing))
    with pytest.raises(ValueError, match=r"missing\.pem"):
        TLSContexts(one._replace(certificate=missing))
    with pytest.raises(ValueError, match=r"one\.pem and its key .*other\.key cannot be used: .*mismatch"):
        TLSContexts(one._replace(key=other.key))
    with pytest.raises(ValueError, match="TensorFlow clients have no certificates"):
        tf.train.Server({"local": ["localhost:0"]}, tensorflow_clients=True, tls=one)
