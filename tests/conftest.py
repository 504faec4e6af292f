"""What holds for every test: none of them asserts a time."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("rtts", deadline=None)  # an example may take long on a busy machine
settings.load_profile("rtts")
