"""Every field is checked, and a mistake is named."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from rtts import StreamConfig
from rtts.errors import RequestError

NAMES = [field.name for field in fields(StreamConfig)]


def test_defaults_are_valid_and_those_of_the_interface() -> None:
    config = StreamConfig()
    assert (config.first_chunk_frames, config.chunk_frames) == (1, 12)
    assert (config.ramp, config.text_mode) == ("adaptive", "sentence")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [None, object(), "x", [], math.nan, -1, 10**9], ids=repr)
def test_no_field_takes_nonsense(name: str, value: object) -> None:
    with pytest.raises(RequestError, match=name):
        StreamConfig(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("clean_text", "verbalise")])
def test_truth_is_no_number(name: str) -> None:
    with pytest.raises(RequestError, match=name):
        StreamConfig(**{name: True})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("first_chunk_frames", 1, 300),
        ("chunk_frames", 1, 300),
        ("ring_frames", 1, 4096),
        ("prefetch_sentences", 0, 16),
        ("max_frames_per_token", 4, 1000),
    ],
)
def test_whole_numbers_have_bounds(name: str, low: int, high: int) -> None:
    for value in (low, high):
        assert getattr(StreamConfig(**{name: value}), name) == value  # type: ignore[arg-type]
    for bad in (low - 1, high + 1, float(low) + 0.5):
        with pytest.raises(RequestError, match=rf"{name} is {bad}, expected an integer from {low} to {high}"):
            StreamConfig(**{name: bad})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("max_buffered_s", 0.2, 3600),
        ("sentence_gap_s", 0, 5),
        ("silence_timeout_s", 0.5, 60),
        ("repeat_timeout_s", 0.5, 60),
        ("text_timeout_s", 0.1, 3600),
        ("consumer_timeout_s", 0.1, 86400),
    ],
)
def test_seconds_have_bounds(name: str, low: float, high: float) -> None:
    for value in (low, high):
        assert getattr(StreamConfig(**{name: value}), name) == value  # type: ignore[arg-type]
    for bad in (low - 0.01, high * 1.01):
        with pytest.raises(RequestError, match=f"{name} is .*, expected seconds"):
            StreamConfig(**{name: bad})  # type: ignore[arg-type]


def test_choices_are_told() -> None:
    with pytest.raises(RequestError, match="ramp is 'linear', expected adaptive or fixed"):
        StreamConfig(ramp="linear")  # type: ignore[arg-type]
    with pytest.raises(RequestError, match="text_mode is 'tokens', expected sentence or token"):
        StreamConfig(text_mode="tokens")  # type: ignore[arg-type]


def test_from_mapping() -> None:
    assert StreamConfig.from_mapping({}) == StreamConfig()
    assert StreamConfig.from_mapping({"chunk_frames": 3, "ramp": "fixed"}) == StreamConfig(
        chunk_frames=3, ramp="fixed"
    )
    with pytest.raises(RequestError, match="chunk_frames is 0"):
        StreamConfig.from_mapping({"chunk_frames": 0})


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("chunk_frame", "did you mean chunk_frames?"),
        ("first_chunk", "did you mean first_chunk_frames?"),
        ("ringframes", "did you mean ring_frames?"),
        ("sentence_gap", "did you mean sentence_gap_s?"),
        ("zzz", "known: first_chunk_frames, "),
        (7, "known: "),
    ],
)
def test_unknown_names_are_refused_with_a_hint(name: str, hint: str) -> None:
    with pytest.raises(RequestError) as caught:
        StreamConfig.from_mapping({name: 1})
    assert hint in str(caught.value)
    assert repr(name) in str(caught.value)


@pytest.mark.parametrize("values", [None, 5, "ramp", [("ramp", "fixed")]])
def test_a_mapping_is_one(values: Any) -> None:
    with pytest.raises(RequestError, match=r"stream config is .*, expected names and values"):
        StreamConfig.from_mapping(values)


@pytest.mark.parametrize("name", ["ramp", "text_mode", "verbalise"])
def test_an_array_is_no_choice(name: str) -> None:
    with pytest.raises(RequestError, match=f"{name} is array"):
        StreamConfig(**{name: np.array([1, 2])})  # type: ignore[arg-type]


def test_unknown_keywords_are_refused() -> None:
    with pytest.raises(RequestError, match=r"no field 'chunk_frame'; did you mean chunk_frames\?"):
        StreamConfig(chunk_frame=3)  # type: ignore[call-arg]


def test_it_cannot_be_changed_afterwards() -> None:
    with pytest.raises(AttributeError):
        StreamConfig().chunk_frames = 3  # type: ignore[misc]
