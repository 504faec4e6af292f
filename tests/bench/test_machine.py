"""What a result says of the command that made it."""

from __future__ import annotations

import os

import pytest

from bench import machine


def test_the_command_is_told_with_its_options_and_without_the_machines_folders(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = os.path.join(os.sep, "somebody", "models", "my voice")
    monkeypatch.setattr("sys.argv", ["engine.py", "--model", model, "--quick"])
    assert machine.invocation("bench.engine") == "python -m bench.engine --model 'my voice' --quick"
