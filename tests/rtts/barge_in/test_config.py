"""The configuration refuses what is not meant, and says what is."""

from __future__ import annotations

import pytest

from rtts.barge_in import BargeInConfig
from rtts.errors import RequestError


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"agressiveness": 2}, "did you mean aggressiveness?"),
        ({"xyz": 2}, "known: aggressiveness, frame_ms"),
        ({"aggressiveness": 4}, "from 0 to 3"),
        ({"aggressiveness": True}, "expected an integer"),
        ({"frame_ms": 15}, "frame_ms is 15, expected 10, 20 or 30"),
        ({"onset_frames": 5}, "more than the onset_window of 4"),
        ({"onset_frames": 0}, "from 1 to 100"),
        ({"min_speech_ms": -1}, "min_speech_ms is -1"),
        ({"min_speech_ms": float("nan")}, "min_speech_ms is nan"),
        ({"duck_gain": 1.5}, "from 0 to 1"),
        ({"duck_gain": "loud"}, "duck_gain is 'loud'"),
        ({"playback_guard": "on"}, "off or strict or ignore"),
        ({"echo_guard": 1}, "expected True or False"),
        ({"before_sound": None}, "expected True or False"),
    ],
)
def test_refused(values: dict[str, object], words: str) -> None:
    with pytest.raises(RequestError) as caught:
        BargeInConfig.from_mapping(values)
    assert words in str(caught.value)


def test_taken() -> None:
    assert BargeInConfig.from_mapping({}) == BargeInConfig()
    assert BargeInConfig.from_mapping({"frame_ms": 10, "duck_gain": 0}).duck_gain == 0
