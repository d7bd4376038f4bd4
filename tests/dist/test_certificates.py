"""Certificates made here: what OpenSSL says of them, and the command that writes them."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from thalweg.cli.main import main
from thalweg.dist.certificates import Authority
from thalweg.dist.tls import TLSContexts, TLSOptions


def test_the_command_writes_files_that_tasks_can_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "certs"
    assert main(["certificates", str(folder), "a.example", "10.0.0.7", "::1"]) == 0
    printed = capsys.readouterr().out.split()
    assert printed[0] == str(folder / "authority.pem") and len(printed) == 7
    for host in ("a.example", "10.0.0.7", "::1"):
        assert (folder / f"{host}.key").stat().st_mode & 0o777 == 0o600
        TLSContexts(TLSOptions(*(str(folder / name) for name in (f"{host}.pem", f"{host}.key", "authority.pem"))))
    assert main(["certificates", str(folder), "a.example"]) == 1  # Nothing is overwritten.
    assert "File exists" in capsys.readouterr().err
    assert main(["certificates", str(folder), "../a.example"]) == 1


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")
def test_openssl_accepts_what_is_signed_and_nothing_else(tmp_path: Path) -> None:
    def verify(name: str) -> str:
        command = ["openssl", "verify", "-x509_strict", "-CAfile", str(tmp_path / "authority"), str(tmp_path / name)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    for _ in range(8):  # Keys and signatures have leading zeros now and then.
        authority, other = Authority("one"), Authority("one")
        (tmp_path / "authority").write_text(authority.certificate)
        (tmp_path / "good").write_text(authority.sign("a", ["a.example"]).certificate)
        (tmp_path / "late").write_text(authority.sign("a", [], ended_days_ago=1.0).certificate)
        (tmp_path / "other").write_text(other.sign("a", []).certificate)
        assert "OK" in verify("good")
        assert "certificate has expired" in verify("late")
        assert "OK" not in verify("other")


def test_certificates_valid_beyond_2050_have_the_long_form_of_dates() -> None:
    certificate = Authority("long", days=40 * 366.0).certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=certificate)
    (found,) = context.get_ca_certs()
    assert int(str(found["notAfter"]).split()[3]) >= 2050
