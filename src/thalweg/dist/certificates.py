"""Certificates for the tasks of a cluster: a private authority, and certificates that it signs.

Python's ssl module uses certificates and cannot make them; a fresh machine has neither the `openssl` command nor a
package for it. Keys are of the curve P-256, signatures ECDSA with SHA-256. The arithmetic is not made for attackers who
measure how long a signature takes: sign on a machine that is trusted, as launchers do for a run of their own.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import ipaddress
import os
import secrets
from collections.abc import Sequence
from typing import Final, NamedTuple

# The curve P-256 (FIPS 186-4, D.1.2.3): y^2 = x^3 - 3 x + b modulo _P, with a base point of order _N.
_P: Final = 2**256 - 2**224 + 2**192 + 2**96 - 1
_N: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_BASE: Final = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
_Point = tuple[int, int]

_SEQUENCE, _SET, _INTEGER, _BITS, _BYTES, _OID, _TEXT, _BOOLEAN = 0x30, 0x31, 0x02, 0x03, 0x04, 0x06, 0x0C, 0x01
_UTC_TIME, _GENERALIZED_TIME = 0x17, 0x18
_COMMON_NAME: Final = bytes([0x55, 4, 3])
_EC_PUBLIC_KEY: Final = bytes.fromhex("2a8648ce3d0201")
_CURVE: Final = bytes.fromhex("2a8648ce3d030107")
_ECDSA_SHA256: Final = bytes.fromhex("2a8648ce3d040302")
_BASIC_CONSTRAINTS, _KEY_USAGE, _ALTERNATIVE_NAMES, _EXTENDED_USAGE = (bytes([0x55, 0x1D, n]) for n in (19, 15, 17, 37))
_KEY_ID, _AUTHORITY_KEY_ID = bytes([0x55, 0x1D, 14]), bytes([0x55, 0x1D, 35])
_SERVER_USE, _CLIENT_USE = bytes.fromhex("2b06010505070301"), bytes.fromhex("2b06010505070302")


class Signed(NamedTuple):
    """A certificate and its private key, as PEM texts."""

    certificate: str
    key: str


class Authority:
    """A private authority, valid from an hour ago."""

    def __init__(self, name: str, days: float = 365.0) -> None:
        """Makes a key, and a certificate that it signs itself."""
        self._name = name
        self._number, self._point = _new_key()
        extensions = [
            _extension(_BASIC_CONSTRAINTS, _der(_SEQUENCE, _der(_BOOLEAN, b"\xff"), _integer(0)), critical=True),
            _extension(_KEY_USAGE, _der(_BITS, b"\x02\x04"), critical=True),  # keyCertSign
            _extension(_KEY_ID, _der(_BYTES, _key_id(self._point))),
        ]
        self.certificate = self._sign(name, self._point, *_validity(days), extensions)

    def sign(self, name: str, hosts: Sequence[str], days: float = 365.0, ended_days_ago: float = 0.0) -> Signed:
        """A new key with a certificate for some host names and addresses.

        Args:
            name: Who it is for.
            hosts: The names and IP addresses under which it is reached.
            days: How long it is valid.
            ended_days_ago: When it ended instead, for tests.
        """
        number, point = _new_key()
        begins, ends = _validity(days)
        if ended_days_ago:
            ends = datetime.datetime.now(datetime.UTC) - datetime.timedelta(ended_days_ago)
            begins = ends - datetime.timedelta(1)
        extensions = [
            _extension(_BASIC_CONSTRAINTS, _der(_SEQUENCE), critical=True),
            _extension(_KEY_USAGE, _der(_BITS, b"\x07\x80"), critical=True),  # digitalSignature
            _extension(_EXTENDED_USAGE, _der(_SEQUENCE, _der(_OID, _SERVER_USE), _der(_OID, _CLIENT_USE))),
            _extension(_AUTHORITY_KEY_ID, _der(_SEQUENCE, _der(0x80, _key_id(self._point)))),
        ]
        if hosts:
            extensions.append(_extension(_ALTERNATIVE_NAMES, _der(_SEQUENCE, *map(_general_name, hosts))))
        return Signed(self._sign(name, point, begins, ends, extensions), _private_key(number, point))

    def _sign(
        self,
        name: str,
        point: _Point,
        begins: datetime.datetime,
        ends: datetime.datetime,
        extensions: list[bytes],
    ) -> str:
        algorithm = _der(_SEQUENCE, _der(_OID, _ECDSA_SHA256))
        content = _der(
            _SEQUENCE, _der(0xA0, _integer(2)), _integer(secrets.randbits(120) | 1), algorithm, _named(self._name),
            _der(_SEQUENCE, _time(begins), _time(ends)), _named(name), _public_key(point),
            _der(0xA3, _der(_SEQUENCE, *extensions)),
        )  # fmt: skip
        signature = _signature(self._number, content)
        return _pem("CERTIFICATE", _der(_SEQUENCE, content, algorithm, _der(_BITS, b"\0" + signature)))


def write_certificates(folder: str, hosts: Sequence[str], days: float = 365.0) -> list[str]:
    """Makes an authority and a certificate for each host: `authority.pem`, `<host>.pem` and `<host>.key`.

    The authority's key is not kept: to add a host, make all certificates anew.

    Returns:
        The paths.

    Raises:
        FileExistsError: If one of the files is there already.
        ValueError: If a host's name cannot be one.
    """
    for host in hosts:
        if not host or "/" in host:
            raise ValueError(f"{host!r} is no host name or IP address.")
    os.makedirs(folder, exist_ok=True)
    authority = Authority("Thalweg cluster", days)
    files = {"authority.pem": authority.certificate}
    for host in hosts:
        made = authority.sign(host, [host], days)
        files[f"{host}.pem"], files[f"{host}.key"] = made
    paths = []
    for name, text in files.items():
        paths.append(os.path.join(folder, name))
        descriptor = os.open(paths[-1], os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if name.endswith(".key") else 0o644)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
    return paths


# The curve.


def _add(a: _Point | None, b: _Point | None) -> _Point | None:
    """The sum of two points; None is the point at infinity."""
    if a is None or b is None:
        return a or b
    (ax, ay), (bx, by) = a, b
    if ax == bx and (ay + by) % _P == 0:
        return None
    slope = (3 * ax * ax - 3) * pow(2 * ay, -1, _P) if a == b else (by - ay) * pow(bx - ax, -1, _P)
    x = (slope * slope - ax - bx) % _P
    return x, (slope * (ax - x) - ay) % _P


def _multiple(number: int, point: _Point) -> _Point:
    result: _Point | None = None
    addend: _Point | None = point
    while number:
        if number & 1:
            result = _add(result, addend)
        addend = _add(addend, addend)
        number >>= 1
    assert result is not None
    return result


def _new_key() -> tuple[int, _Point]:
    number = secrets.randbelow(_N - 1) + 1
    return number, _multiple(number, _BASE)


def _signature(number: int, content: bytes) -> bytes:
    digest = int.from_bytes(hashlib.sha256(content).digest())
    while True:
        once = secrets.randbelow(_N - 1) + 1
        r = _multiple(once, _BASE)[0] % _N
        s = pow(once, -1, _N) * (digest + r * number) % _N
        if r and s:
            return _der(_SEQUENCE, _integer(r), _integer(s))


# The encoding (ASN.1 DER).


def _der(tag: int, *contents: bytes) -> bytes:
    content = b"".join(contents)
    size = len(content)
    if size < 0x80:
        length = bytes([size])
    else:
        digits = size.to_bytes((size.bit_length() + 7) // 8)
        length = bytes([0x80 | len(digits)]) + digits
    return bytes([tag]) + length + content


def _integer(value: int) -> bytes:
    return _der(_INTEGER, value.to_bytes(value.bit_length() // 8 + 1))


def _named(name: str) -> bytes:
    return _der(_SEQUENCE, _der(_SET, _der(_SEQUENCE, _der(_OID, _COMMON_NAME), _der(_TEXT, name.encode()))))


def _time(when: datetime.datetime) -> bytes:
    if when.year < 2050:
        return _der(_UTC_TIME, when.strftime("%y%m%d%H%M%SZ").encode())
    return _der(_GENERALIZED_TIME, when.strftime("%Y%m%d%H%M%SZ").encode())


def _validity(days: float) -> tuple[datetime.datetime, datetime.datetime]:
    now = datetime.datetime.now(datetime.UTC)
    return now - datetime.timedelta(hours=1), now + datetime.timedelta(days)


def _extension(oid: bytes, value: bytes, critical: bool = False) -> bytes:
    flag = _der(_BOOLEAN, b"\xff") if critical else b""
    return _der(_SEQUENCE, _der(_OID, oid), flag, _der(_BYTES, value))


def _general_name(host: str) -> bytes:
    try:
        return _der(0x87, ipaddress.ip_address(host).packed)
    except ValueError:
        return _der(0x82, host.encode("idna") if not host.isascii() else host.encode())


def _uncompressed(point: _Point) -> bytes:
    return b"\4" + point[0].to_bytes(32) + point[1].to_bytes(32)


def _key_id(point: _Point) -> bytes:
    return hashlib.sha256(_uncompressed(point)).digest()[:20]


def _public_key(point: _Point) -> bytes:
    algorithm = _der(_SEQUENCE, _der(_OID, _EC_PUBLIC_KEY), _der(_OID, _CURVE))
    return _der(_SEQUENCE, algorithm, _der(_BITS, b"\0" + _uncompressed(point)))


def _private_key(number: int, point: _Point) -> str:
    """PKCS #8."""
    algorithm = _der(_SEQUENCE, _der(_OID, _EC_PUBLIC_KEY), _der(_OID, _CURVE))
    public = _der(0xA1, _der(_BITS, b"\0" + _uncompressed(point)))
    key = _der(_SEQUENCE, _integer(1), _der(_BYTES, number.to_bytes(32)), public)
    return _pem("PRIVATE KEY", _der(_SEQUENCE, _integer(0), algorithm, _der(_BYTES, key)))


def _pem(kind: str, data: bytes) -> str:
    text = base64.b64encode(data).decode()
    lines = [text[at : at + 64] for at in range(0, len(text), 64)]
    return "\n".join([f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----", ""])
