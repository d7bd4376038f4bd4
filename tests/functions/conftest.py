"""Every test of functions runs twice: with the bodies inlined, and with real calls."""

from __future__ import annotations

import pytest

from tests.functions.calling import Mode


@pytest.fixture(autouse=True, params=[True, False], ids=["inlined", "called"])
def mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the mode of the test."""
    monkeypatch.setattr(Mode, "inline", request.param)
