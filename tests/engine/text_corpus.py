"""Texts that are hard for tokenizers: hand-picked ones and seeded random mixtures."""

from __future__ import annotations

import random

ADDED_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<think>",
    "</think>",
    "<tts_pad>",
    "<tts_text_bos>",
)

CRAFTED: tuple[str, ...] = (
    "",
    " ",
    "\n",
    " \n \n\n  x",
    "Hello, world!",
    "I'll say it's fine: we're here, they've gone; I'm sure you'd agree. DON'T, 'TIS, it'S, I'LL",
    "can't 've 'v'ver 'r'e 'll'l 'd'dd ''s '\u017f",
    " iPhone McDonald JavaScript YouTube GitHub eBay macOS PowerPoint LaTeX HTTPServer aB Ab ABc aBC",
    "In 2024 it cost $1,234,567.89 (+12.5 %) for 3/4 of m\u00b2, \u00bd and \u2167 and \u0663\u0664.",
    "你好，世界。今天天气很好，我们去公园散步吧！123個",
    "日本語のテスト、カタカナとーひらがな。ＡＢＣ１２３",
    "안녕하세요, 반갑습니다. \u1112\u1161\u11ab\u1100\u1173\u11af",
    "日本A 日本Ab 日本ABc 日本AbC aの aのAb \u0301日A",
    "Привет, мир! Καλημέρα κόσμε. שלום עולם مرحبا بالعالم हिन्दी ภาษาไทย தமிழ்",
    "cafe\u0301 e\u0327\u0301 e\u0345\u0301 q\u0323\u0307 \u0301start =\u0338 \u212b\u2126 \ufb01 \u1e9b\u0323",
    "か\u3099は\u309a \u09c7\u09be \u0bc6\u0bbe \u1100\u1161 \u0dd9\u0dcf",
    "😀😃 👩\u200d👩\u200d👧\u200d👦 👍🏽 🇩🇪🇫🇷 ☺\ufe0f",
    "<|im_end|>\n<|im_start|>assistant\nhi<think>no</think><tts_pad>< |im_end|><|im_end|",
    "<|im_start|><|im_start|>user\n<|endoftext|>",
    "tab\there\r\nline\rnext\u2028sep\u0085nel\u00a0nbsp\u3000wide\u200bzero\ufeffbom",
    "\x00\x01\x02\x1b[31mred\x1b[0m\x7f\x1c\x1d\x1e\x1f",
    'a/b//c ./\n/\n  -- ... !!! ?!\n\n"quoted" (x) [y] {z} http://example.org/?q=1&r=2#f',
    "x" * 300,
    "ab" * 100 + " " * 50 + "c",
    "\U0010ffff\U000e0001\ue000\u0378\uffff",
    "assistant user system\nassistant",
)

_FRAGMENTS: tuple[str, ...] = (
    *"abcxyzABCXYZ019 ",
    *(
        "'s",
        "'S",
        "'ve",
        "'l",
        "'",
        "\u2019s",
        "the",
        " The",
        "ing",
        "iPhone",
        " McDonald",
        "ß",
        "ſ",
        "é",
        "İ",
        "ǅ",
    ),
    *(" ", "  ", "   ", "\n", "\r\n", "\r", "\t", "\u00a0", "\u3000", "\u2028", "\x85", " \n", "\n "),
    *(".", ",", "!", "?", "...", "-", "/", "//", '"', "(", ")", "#", "$", "€", "，", "。", "、", "！", "「"),
    *("1", "42", "3.14", "٣", "Ⅷ", "½", "²", "１"),
    *(
        "你",
        "好",
        "世界",
        "你好",
        "天气",
        "日本",
        "の",
        "カ",
        "ー",
        "ひ",
        "龘",
        "𠮷",
        "한",
        "국어",
        "\u1112",
        "\u1161",
        "\u11ab",
    ),
    *(
        "\u0301",
        "\u0327",
        "\u0345",
        "\u0323",
        "\u3099",
        "\u309a",
        "\u0338",
        "\u09be",
        "\u09c7",
        "\u0bbe",
        "\ufe0f",
    ),
    *(
        "\u093f",
        "क",
        "\u094d",
        "ส",
        "\u0e34",
        "\u064e",
        "م",
        "ש",
        "\u05b7",
        "Ж",
        "ж",
        "Ω",
        "ω",
        "ʰ",
        "ª",
        "ა",
        "Ა",
    ),
    *("😀", "👍", "🏽", "\u200d", "👩", "🇩", "🇪", "\u200b", "\ufeff", "\u00ad"),
    *("\x00", "\x07", "\x1b", "\x1c", "\x7f", "\x9f", "\u0378", "\U000e0001", "\ue000", "\uffff"),
    *(*ADDED_TOKENS, "<|", "|>", "<|im_", "im_end|>", "<", "<tts_"),
)


def random_texts(seed: int, n: int) -> list[str]:
    """Mixtures of fragments (mostly within one small set each, so that they meet often) and of any code points."""
    rng = random.Random(seed)
    texts = []
    for _ in range(n):
        if rng.random() < 0.15:
            points = (rng.choice((0x80, 0x250, 0x3000, 0x110000)) for _ in range(rng.randint(1, 20)))
            characters = [chr(rng.randrange(limit)) for limit in points]
            texts.append("".join(c for c in characters if not "\ud800" <= c <= "\udfff"))
            continue
        few = rng.sample(_FRAGMENTS, rng.randint(2, 12))
        texts.append("".join(rng.choice(few) for _ in range(rng.randint(1, 25))))
    return texts


def random_parts(rng: random.Random, text: str) -> list[str]:
    """``text`` cut into parts as a stream might deliver it; some are empty."""
    parts = []
    longest = rng.choice((1, 2, 4, 12, 40))
    while text:
        n = rng.randint(0, longest)
        parts.append(text[:n])
        text = text[n:]
    return parts
