"""`thalweg certificates certs host-a host-b`: makes certificates for the tasks of a cluster."""

from __future__ import annotations

import argparse
from typing import Any

HELP = "make a private authority and certificates for encrypted connections between hosts"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("folder", help="where to write authority.pem, and HOST.pem and HOST.key for each host")
    parser.add_argument("hosts", nargs="+", metavar="HOST", help="a host name or IP address, as in the ClusterSpec")
    parser.add_argument("--days", type=float, default=365.0, help="how long they are valid (default: 365)")


def run(options: Any) -> int:
    """Writes the files, and prints their paths."""
    # Start-up time: `thalweg --help` makes no certificates.
    from thalweg.dist.certificates import write_certificates

    for path in write_certificates(options.folder, options.hosts, options.days):
        print(path)
    return 0
