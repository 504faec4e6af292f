"""Which texts a model cannot speak."""

from __future__ import annotations

import pytest

from rtts.text.lexicon import LANGUAGES
from rtts.text.reach import out_of_reach

LARK = ["auto", "english"]
ALL = ["auto", *LANGUAGES]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Hello there, this is fine.", None),
        ("", None),
        ("123 456", None),
        ("你好", None),  # as few letters may be a name
        ("你好，今天天气很好。", "Chinese script"),
        ("Привет, как дела?", "Cyrillic script"),
        ("こんにちは、元気ですか", "Japanese script"),
        ("안녕하세요 반갑습니다", "Korean script"),
        ("مرحبا كيف حالك", "Arabic script"),
        ("The word привет means hello.", None),
        ("Ich weiß nicht, ob wir das heute noch machen können.", "German"),
        ("Je ne sais pas pourquoi il est parti avec les autres.", "French"),
        ("No sé por qué ella no está en la casa con nosotros.", "Spanish"),
        ("Das Auto.", None),
        ("I love the song La vie en rose by Edith Piaf.", None),
        ("Ms. Müller and Mr. Gonzalez flew to São Paulo on Monday.", None),
        ("He said: to be or not to be, that is the question.", None),
    ],
)
def test_for_a_model_of_english(text: str, found: str | None) -> None:
    assert out_of_reach(text, LARK) == found
    if found is None or found in ("Arabic script",):
        assert out_of_reach(text, ALL) == found
    else:
        assert out_of_reach(text, ALL) is None


def test_nothing_is_known_of_a_model_without_languages() -> None:
    assert out_of_reach("Привет, как дела?", []) is None
    assert out_of_reach("Привет, как дела?", ["auto"]) is None
