"""Sentences to speak: WordNet examples and glosses, public-domain prose, and templates of everyday speech.

Everything is drawn with fixed seeds from packages, so that the list is the same on every machine. The held-out
sentences (`heldout.tsv`) never enter it.
"""

import glob
import random
import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

MAX_CHARS = 190
"""Longest utterance in characters: about 13 s of speech, and the limit of the training rows."""

_UNWANTED = re.compile(
    r"\b(fuck\w*|shit\w*|cunt\w*|nigger\w*|rape\w*|raping|whore\w*|bitch\w*|slut\w*|prostitut\w*|sex\w*|genital\w*|penis\w*"
    r"|vagina\w*|bastard\w*|faggot\w*|urin\w*|masturb\w*|negro\w*|homosexual\w*|slave\w*|copulat\w*|testic\w*)\b",
    re.I,
)
_DROPPED = str.maketrans({"’": "'", "‘": "'", "`": "'", "“": None, "”": None, '"': None, "_": None})


def normalise(text: str) -> str:
    """One line of plain text: straight quotes, no brackets, dashes as commas, single spaces."""
    text = unicodedata.normalize("NFKC", text).translate(_DROPPED)
    text = re.sub(r"\([^)]*\)", " ", text)
    text = re.sub(r"\s*(—|–|--+)\s*", ", ", text).replace("...", ".")
    text = re.sub(r"\s+", " ", text).strip(" '-")
    text = re.sub(r"\s+([,.;:!?])", r"\1", text)
    return re.sub(r",+", ",", text)


def speakable(text: str, shortest: int = 8, longest: int = MAX_CHARS) -> bool:
    """True for text that espeak-ng and the text encoder both read as ordinary English words."""
    return (
        shortest <= len(text) <= longest
        and re.fullmatch(r"[A-Za-z ,.;:!?'\-]+", text) is not None
        and " " in text
        and not _UNWANTED.search(text)
        and not re.search(r"[A-Z]{2,}|[,.;:!?']{2,}|\b[b-hj-z]\b", text)
    )


def finish(text: str) -> str:
    """Capital first letter and a final mark."""
    text = text[0].upper() + text[1:]
    return text if text[-1] in ".!?" else text.rstrip(",;:-") + "."


def key(text: str) -> str:
    """What two sentences have in common when they differ in case and punctuation only."""
    return re.sub(r"[^a-z]", "", text.lower())


def wordnet(folder: Path) -> tuple[list[str], list[str]]:
    """(example sentences, definitions) of WordNet 3.0's data files."""
    examples: list[str] = []
    glosses: list[str] = []
    for part in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"data.{part}").read_text("latin1").splitlines():
            if "|" not in line:
                continue
            gloss = line.split("|", 1)[1]
            examples += [normalise(q) for q in re.findall(r'"([^"]{6,200})"', gloss)]
            definition = normalise(re.sub(r'"[^"]*"', "", gloss).split(";")[0])
            glosses.append(definition)
    return [finish(s) for s in examples if speakable(s)], [
        finish(s) for s in glosses if speakable(s, 18, 150)
    ]


def prose(files: list[str]) -> list[str]:
    """Sentences of plain-text books."""
    found: list[str] = []
    for name in files:
        text = normalise(Path(name).read_text("utf8", errors="ignore"))
        found += [finish(s) for s in re.split(r"(?<=[.!?])\s+", text) if speakable(s, 15)]
    return found


# ------------------------------------------------------------------------------------------------ templates
_WORDS: dict[str, list[str]] = {
    name: text.split()
    for name, text in tomllib.loads((Path(__file__).parent / "words.toml").read_text("utf8")).items()
}
DAYS, MONTHS, FIRST, LAST, PLACES, THINGS = (
    _WORDS[k] for k in ("days", "months", "first", "last", "places", "things")
)
ADJECTIVES, VERBS, ADVERBS, ONES, TEENS, TENS, ORDINALS = (
    _WORDS[k] for k in ("adjectives", "verbs", "adverbs", "ones", "teens", "tens", "ordinals")
)
TEMPLATES = (Path(__file__).parent / "templates.txt").read_text("utf8").splitlines()
"""One sentence a line; `template` says what the letters in braces stand for."""
REPLIES = (Path(__file__).parent / "replies.txt").read_text("utf8").splitlines()
"""What a voice agent says first: one to six words a line, with the same letters in braces."""


def number(rnd: random.Random) -> str:
    """A number in words, small ones more often."""
    n = rnd.choice((rnd.randint(0, 20), rnd.randint(0, 99), rnd.randint(0, 999), rnd.randint(0, 99999)))
    return spell(n)


def spell(n: int) -> str:
    """English words of a whole number below one million."""
    if n < 10:
        return ONES[n]
    if n < 20:
        return TEENS[n - 10]
    if n < 100:
        return TENS[n // 10 - 2] + (f" {ONES[n % 10]}" if n % 10 else "")
    if n < 1000:
        return f"{ONES[n // 100]} hundred" + (f" and {spell(n % 100)}" if n % 100 else "")
    return f"{spell(n // 1000)} thousand" + (f" {spell(n % 1000)}" if n % 1000 else "")


def template(rnd: random.Random, pattern: str | None = None) -> str:
    """One everyday sentence, after `pattern` or after one of `TEMPLATES`."""

    def place() -> str:
        return rnd.choice(PLACES).replace("-", " ")

    def year() -> str:
        return rnd.choice(
            (
                f"{spell(rnd.randint(11, 19))} {spell(rnd.randint(20, 99))}",
                f"twenty {spell(rnd.randint(10, 40))}",
                f"two thousand and {spell(rnd.randint(1, 30))}",
            )
        )

    text = (pattern or rnd.choice(TEMPLATES)).format(
        t=rnd.choice(THINGS),
        u=rnd.choice(THINGS),
        w=rnd.choice(THINGS),
        n=rnd.choice(FIRST),
        k=rnd.choice(FIRST),
        j=rnd.choice(FIRST),
        l=rnd.choice(LAST),
        v=rnd.choice(VERBS),
        d=rnd.choice(DAYS),
        m=rnd.choice(MONTHS),
        a=rnd.choice(ADJECTIVES),
        b=rnd.choice(ADJECTIVES),
        e=rnd.choice(ADVERBS),
        x=number(rnd),
        y=number(rnd),
        z=number(rnd),
        g=rnd.choice(ONES),
        h=spell(rnd.randint(1, 12)),
        M=rnd.choice(("fifteen", "thirty", "forty five", "ten", "twenty")),
        o=rnd.choice(ORDINALS),
        p=rnd.choice(("morning", "afternoon", "evening")),
        q=place(),
        r=place(),
        Y=year(),
    )
    return finish(text)


def short(words: list[str], rnd: random.Random) -> str:
    """One to three words: the utterances that a sentence corpus lacks."""
    mark = rnd.choices(".!?", (8, 1, 1))[0]
    kind = rnd.random()
    if kind < 0.5:
        return finish(rnd.choice(words) + mark)
    if kind < 0.6:
        return finish(rnd.choice(FIRST + LAST + PLACES + DAYS + MONTHS).replace("-", " ") + mark)
    if kind < 0.75:
        return finish(f"{rnd.choice(ADJECTIVES)} {rnd.choice(words)}{mark}")
    if kind < 0.85:
        return finish(number(rnd) + mark)
    return finish(
        f"{rnd.choice(words)} {rnd.choice(('and', 'or', 'of', 'in', 'with'))} {rnd.choice(words)}{mark}"
    )


def reply(rnd: random.Random) -> str:
    """A short reply, in one of five followed by a sentence or by another reply; some with an exclamation mark."""
    text = template(rnd, rnd.choice(REPLIES))
    if text[-1] == "." and rnd.random() < 0.2:
        text = text[:-1] + "!"
    if rnd.random() < 0.2:
        text += " " + template(rnd, rnd.choice(REPLIES) if rnd.random() < 0.4 else None)
    return text


def collect(wordnet_dir: Path, prose_dir: Path, heldout: list[str], total: int, seed: int) -> Iterator[str]:
    """At most `total` sentences in random order, all different except the replies."""
    rnd = random.Random(seed)
    examples, glosses = wordnet(wordnet_dir)
    books = prose(sorted(glob.glob(f"{prose_dir}/**/data/*.txt", recursive=True)))
    counts = Counter(w for s in examples + books + glosses for w in re.findall(r"[a-z]+(?:'[a-z]+)?", s))
    lemmas = {
        line.split(" ", 1)[0]
        for f in sorted(wordnet_dir.glob("index.*"))
        for line in f.read_text("latin1").splitlines()
    }
    common = [
        w for w, c in counts.items() if c >= 3 and len(w) > 2 and w in lemmas and not _UNWANTED.search(w)
    ]
    sources = {
        "template": [template(rnd) for _ in range(int(total * 0.4))],
        "short": [short(common, rnd) for _ in range(int(total * 0.32))],
        "example": examples,
        "book": books,
        "gloss": glosses,
    }
    share = {"template": 0.16, "short": 0.18, "example": 0.32, "book": 0.15, "gloss": 1.0}
    held = {key(s) for s in heldout}
    replies = [reply(rnd) for _ in range(int(total * 0.08))]
    replies = [s for s in replies if key(s) not in held]
    total -= len(replies)
    seen = set(held)
    chosen: list[str] = []
    for name, sentences in sources.items():
        rnd.shuffle(sentences)
        fresh = []
        for s in sentences:
            if key(s) not in seen:
                seen.add(key(s))
                fresh.append(s)
        chosen += fresh[: min(int(total * share[name]), total - len(chosen))]
    rnd.shuffle(chosen)
    # one in ten becomes the first half of a pair, so that a pause inside an utterance is learnt
    paired: list[str] = []
    hold: str | None = None
    for s in chosen:
        if hold is not None and len(hold) + len(s) + 1 <= MAX_CHARS:
            paired.append(f"{hold} {s}")
            hold = None
        elif hold is None and rnd.random() < 0.09 and len(s) < 110:
            hold = s
        else:
            paired.append(s)
    # the same reply comes several times, by both voices: these are the first words that a listener hears
    paired += replies
    rnd.shuffle(paired)
    yield from paired
