"""Warnings about what is likely not what a user wants: one line each, once a process."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import lru_cache

from rtts.text.reach import out_of_reach
from rtts_engine.config import ModelConfig

log = logging.getLogger("rtts")

_ENOUGH_CHARS = 80


@lru_cache(maxsize=256)
def warn_once(message: str) -> None:
    """Log a warning, unless it was logged before."""
    log.warning(message)


def check_reach(text: str, languages: Iterable[str]) -> None:
    """Warn when most of a text is in a script or language that the model does not list."""
    languages = list(languages)
    foreign = out_of_reach(text, languages)
    if foreign is not None:
        listed = ", ".join(name for name in languages if name != "auto")
        warn_once(f"most of the text is {foreign}; this model speaks {listed}, so expect nonsense")


def check_instruct(instruct: str | None, config: ModelConfig) -> None:
    """Warn of an instruction that a custom_voice model was not trained with; the engine warns of the 0.6B ones."""
    if instruct and instruct.strip() and config.kind == "custom_voice" and config.size not in ("0b6", "1b7"):
        warn_once("instruct: this model was not trained with instructions and is likely to ignore it")


class ReachWatch:
    """``check_reach`` for text that arrives in parts: looks once, at the first line or so."""

    def __init__(self, languages: Iterable[str]) -> None:
        self._languages = list(languages)
        self._text = ""
        self._done = not self._languages

    def feed(self, text: str) -> None:
        """More text."""
        if not self._done:
            self._text += text
            if len(self._text) >= _ENOUGH_CHARS:
                self.end()

    def end(self) -> None:
        """No more text is to be waited for."""
        if not self._done and self._text:
            self._done = True
            check_reach(self._text[: 4 * _ENOUGH_CHARS], self._languages)
