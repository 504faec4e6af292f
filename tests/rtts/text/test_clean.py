"""What becomes of LLM output, however it arrives, and where the spoken text came from."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtts.errors import RequestError, TextError
from rtts.text import Cleaner, CleanText
from rtts.text.clean import MAX_HOLD_CHARS

CASES = [
    # headings, emphasis
    ("# Title\nText.", "Title.\nText."),
    ("Intro\n\n### What now? ###\nText.", "Intro.\nWhat now?\nText."),
    ("#hashtag and C# and #1", "#hashtag and C# and #1"),
    ("Title\n=====\nText.", "Title.\nText."),
    ("This is **bold**, *it*, ***both***, __b__ and _i_.", "This is bold, it, both, b and i."),
    ("这是**重点**内容", "这是重点内容"),
    ("**Wich**tig", "Wichtig"),
    ("2 * 3 = 6, 2*3, 2**3, a*b", "2 * 3 = 6, 2*3, 2**3, a*b"),
    ("snake_case and __init__", "snake case and init"),
    ("a price* of 5", "a price of 5"),
    ("~~old~~ new, ~5 km", "old new, ~5 km"),
    (r"\*not emphasised\* and C:\dir", r"*not emphasised* and C:\dir"),
    # code
    ("Call `foo_bar(*args)` or ``x[0]``.", "Call foo bar(*args) or x[0]."),
    ("Use:\n\n```python\nprint('**hi**')\n```\nThen run it.", "Use:\nThen run it."),
    ("So:\n~~~\ncode\n```\n~~~\nDone.", "So:\nDone."),
    ("It is ```bash\nls\n```\nright", "It is.\nright"),
    ("Never closed\n```\nx = 1", "Never closed."),
    ("one ```two three``` four", "one two three four"),
    ("`open tick\nnext *line*", "open tick\nnext line"),
    # links, images, URLs
    ("See [the docs](https://a.b/c_d \"T\").", "See the docs."),
    ("[**bold** link](<a b.md>) and [ref][1] here", "bold link and ref here"),
    ("请看[这里](https://x.com/a)。", "请看这里。"),
    ("![A cat](cat.png) sleeps. Wow![x](y)", "A cat sleeps. Wow!x"),
    ("[Foo](https://en.wikipedia.org/wiki/Foo_(bar)) is", "Foo is"),
    ("[x](/" + "a" * 400 + ") is long", "x is long"),
    ("See https://www.example.com/a/b?c=d#e.", "See example.com."),
    ("(http://example.com:8080/x), or www.foo.org!", "(example.com), or foo.org!"),
    ("<https://example.com/x> or <me@x.org>", "example.com or me@x.org"),
    ("看https://x.com/a。好", "看x.com。好"),
    ("**https://x.com/a_b**", "x.com"),
    ("https://en.wikipedia.org/wiki/Foo_(bar).", "en.wikipedia.org."),
    ("[1]: https://x.com \"T\"\nText", "Text"),
    ("whttp://x hello http: www", "whttp://x hello http: www"),
    ("f[i](x) and [laughs] ok", "f i(x) and laughs ok"),
    # lists, quotes, tables, rules
    ("Buy:\n- eggs\n- milk, cold\n* tea!\n+ end", "Buy:\neggs.\nmilk, cold.\ntea!\nend."),
    ("1. One\n2) Two\n   - Sub", "1. One.\n2) Two.\nSub."),
    ("- [ ] open\n- [x] done", "open.\ndone."),
    ("- 鸡蛋\n- 牛奶", "鸡蛋。\n牛奶。"),
    ("-5 degrees\n- 5 degrees", "-5 degrees.\n5 degrees."),
    ("> Said he\n> > twice\n\nYes", "Said he\ntwice.\nYes"),
    ("| Name | Age |\n|:-----|----:|\n| Bob | 5 |\n|  | 7 |\nEnd", "Name, Age.\nBob, 5.\n7.\nEnd"),
    ("One\n\n---\n\nTwo\n* * *\nThree", "One.\nTwo.\nThree"),
    ("Yes.\n\nNo, \n\n\nMaybe", "Yes.\nNo,\nMaybe"),
    ("Roses are red\nViolets are blue", "Roses are red\nViolets are blue"),
    ("He said “hi.”\n\nShe said (no)\n\nEnd", "He said “hi.”\nShe said (no).\nEnd"),
    # HTML, notes
    ("<b>H</b><sub>2</sub>O<br>is <span class=\"a b\">wet</span><hr/>", "H2O\nis wet."),
    ("<p>One</p><p>Two</p>", "One.\nTwo."),
    ("a < b > c, i<3, <- and <b and c>", "a < b > c, i<3, <- and <b and c>"),
    ("one<foo>two<!-- a > b -->three", "one two three"),
    ("Tom &amp; Jerry&nbsp;&lt;b&gt; &#8364;5 &nope; AT&T", "Tom & Jerry <b> €5 &nope; AT&T"),
    ("Fact.[1] More[^note] yes [2, 3-5]. x[0]", "Fact. More yes. x 0"),
    ("真的【4†source】。【重要】", "真的。【重要】"),
    ("Text[^1]\n\n[^1]: The note.", "Text.\nThe note."),
    # emoji, invisible characters, punctuation, space
    ("Hi 👋🏽 there 🎉! Great🎉Next 👨‍👩‍👧", "Hi there! Great Next"),
    ("1️⃣ First ❤️ 🇩🇪 ☎ ★ ©", "1 First ©"),
    ("a\u200bb\u00adc\ufeff \u202ex\x00", "abc x"),
    ("What??? No!!! Really?!?! Wait..... so,, yes…… —— ok", "What? No! Really?! Wait... so, yes… — ok"),
    ("a--b -- c --flag", "a—b — c flag"),
    ("one ==== two ^^^^ three == four", "one two three == four"),
    ("  a \t b\u00a0c\u3000d  \r\n", "a b c d"),
    ("Bonjour ! Ça va ?", "Bonjour ! Ça va ?"),
    ("\ue200cite\ue202turn0\ue201 x \ufffd", "cite turn0 x"),
    ("", ""),
    (" \n\n ", ""),
]  # fmt: skip
MARKS = [
    *(
        "*",
        "**",
        "_",
        "`",
        "```",
        "~~~",
        "[",
        "](",
        ")",
        "](http://a.b)",
        "![",
        "<",
        "<b>",
        "</p>",
        "<!--",
        "-->",
        "&amp;",
    ),
    *(
        "&",
        "|",
        "|-|",
        "#",
        "# ",
        "- ",
        "-",
        "--",
        "1. ",
        "> ",
        "\n",
        "\n\n",
        " ",
        "\t",
        "\\",
        "https://",
        "www.",
        "h",
    ),
    *(
        ".",
        "!",
        "?",
        "…",
        "[1]",
        "[^1]",
        "[1]: ",
        "【1†x】",
        "【",
        "🎉",
        "\u200b",
        "=",
        "===",
        "word",
        "你好",
        "。",
        "a",
        "7",
    ),
]
SOURCE = st.one_of(
    st.lists(st.sampled_from(MARKS), max_size=40).map("".join),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=200),
)


def pieces(parts: list[str], code_notice: str = "") -> list[CleanText]:
    cleaner = Cleaner(code_notice=code_notice)
    return [piece for part in parts for piece in cleaner.feed(part)] + cleaner.close()


def spoken(parts: list[str]) -> str:
    return "".join(piece.text for piece in pieces(parts))


@pytest.mark.parametrize(("source", "expected"), CASES)
def test_what_is_spoken(source: str, expected: str) -> None:
    assert spoken([source]) == expected
    assert spoken(list(source)) == expected
    if len(source) < 200:
        for i in range(1, len(source)):
            assert spoken([source[:i], source[i:]]) == expected, i


def test_a_code_block_can_be_announced() -> None:
    source = "Try this\n```py\nx = 1\n```\nThen go."
    text = "".join(piece.text for piece in pieces([source], code_notice="Here is code"))
    assert text == "Try this.\nHere is code.\nThen go."


@pytest.mark.parametrize(
    "text",
    [
        "Hello. How are you? I'm fine, thanks!",
        "它很好。",
        "« Oui », dit-il : 3,5 % à 10.30…",
        "Привет! 안녕하세요.",
    ],
)
def test_plain_text_is_untouched(text: str) -> None:
    assert pieces([text]) == [CleanText(text, 0, len(text))]


def test_a_stop_is_not_held_back() -> None:
    for text in ("Hello.", "Hello!", "Hello?", "你好。", "Hello,", "(Hello)"):
        cleaner = Cleaner()
        assert "".join(piece.text for piece in cleaner.feed(text)) == text


def test_a_flush_decides_and_goes_on() -> None:
    cleaner = Cleaner()
    text = "".join(
        piece.text
        for piece in [*cleaner.feed("a -"), *cleaner.flush(), *cleaner.feed("- b"), *cleaner.close()]
    )
    assert text == "a -- b"
    assert cleaner.held_chars == 0


@given(SOURCE, st.data())
@settings(max_examples=300, deadline=None)
def test_any_text_in_any_parts(source: str, data: st.DataObject) -> None:
    whole = pieces([source])
    text = "".join(piece.text for piece in whole)
    assert [piece.source_start for piece in whole] == [0, *(piece.source_end for piece in whole)][
        : len(whole)
    ]
    assert (whole[-1].source_end if whole else 0) == len(source)
    assert text == text.strip()
    assert not re.search(r"\s{2}", text)
    at = sorted(data.draw(st.lists(st.integers(0, len(source)), max_size=8)))
    cleaner, parts = Cleaner(), list[CleanText]()
    for start, end in zip([0, *at], [*at, len(source)], strict=True):
        parts += cleaner.feed(source[start:end])
        assert cleaner.held_chars < MAX_HOLD_CHARS
    parts += cleaner.close()
    assert "".join(piece.text for piece in parts) == text
    for piece in parts:
        if len(piece.text) == piece.source_end - piece.source_start > 1:
            pairs = zip(piece.text, source[piece.source_start : piece.source_end], strict=True)
            assert all(said == written for said, written in pairs if said.isalnum())


@given(st.lists(st.sampled_from(["alpha", "beta9", "Ümlaut", "слово"]), min_size=2, max_size=6), st.data())
@settings(max_examples=200, deadline=None)
def test_words_never_grow_together(words: list[str], data: st.DataObject) -> None:
    silent = [
        " ",
        "\n",
        "\n- ",
        " 🎉",
        "🎉",
        "[1]",
        "<br>",
        "\n\n",
        " **",
        "** ",
        "\n# ",
        "\n```\nx\n```\n",
        "<x>",
        "![",
        "_",
    ]
    source = words[0] + "".join(data.draw(st.sampled_from(silent)) + word for word in words[1:])
    assert re.findall(r"\w+", spoken([source])) == words


@pytest.mark.parametrize(
    "unit",
    [
        "Some **words** here. ",
        "[",
        "*",
        "<a b=",
        "`",
        "- ",
        "&",
        "|-",
        "https://a.b/",
        "(",
        "\n",
        "![a](",
        "【1",
        "```\n",
    ],
)
def test_time_is_linear_in_the_text(unit: str) -> None:
    def seconds(n: int) -> float:
        start = time.process_time()
        pieces([(unit * n)[:n]])
        return time.process_time() - start

    seconds(1000)
    small, large = min(seconds(10_000) for _ in range(2)), seconds(100_000)
    assert large < 30 * small + 0.5


def test_a_lone_surrogate_is_refused_and_changes_nothing() -> None:
    cleaner = Cleaner()
    before = cleaner.feed("Hello *")
    with pytest.raises(TextError, match="lone surrogate"):
        cleaner.feed("there\udc00")
    assert "".join(piece.text for piece in before + cleaner.feed("you*") + cleaner.close()) == "Hello you"


def test_a_closed_cleaner_is_closed() -> None:
    cleaner = Cleaner()
    cleaner.close()
    calls: list[Callable[[], object]] = [lambda: cleaner.feed("x"), cleaner.flush, cleaner.close]
    for call in calls:
        with pytest.raises(RequestError, match="closed"):
            call()
