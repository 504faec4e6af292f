"""Sentences to speak: WordNet examples and glosses, public-domain prose, and templates of everyday speech.

Everything is drawn with fixed seeds from packages, so that the list is the same on every machine. The held-out
sentences (`heldout.tsv`) never enter it.
"""

import glob
import random
import re
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
    return [finish(s) for s in examples if speakable(s)], [finish(s) for s in glosses if speakable(s, 18, 150)]


def prose(files: list[str]) -> list[str]:
    """Sentences of plain-text books."""
    found: list[str] = []
    for name in files:
        text = normalise(Path(name).read_text("utf8", errors="ignore"))
        found += [finish(s) for s in re.split(r"(?<=[.!?])\s+", text) if speakable(s, 15)]
    return found


# ------------------------------------------------------------------------------------------------ templates
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
FIRST = (
    "Alice Bob Carol David Emma Frank Grace Henry Julia Kevin Laura Michael Nancy Oliver Peter Rachel Sarah Thomas Victor "
    "Wendy Andrew Angela Anna Anthony Barbara Benjamin Brandon Brian Catherine Charles Charlotte Christina Christopher "
    "Claire Daniel Deborah Diana Donald Dorothy Douglas Edward Eleanor Elizabeth Emily Eric Ethan Evelyn Felix Fiona "
    "George Gregory Hannah Harold Helen Isaac Isabella Jack Jacob James Janet Jason Jeffrey Jennifer Jessica Joan John "
    "Jonathan Joseph Joshua Judith Karen Katherine Kenneth Larry Leonard Lily Linda Lisa Louis Lucy Margaret Maria Mark "
    "Martha Martin Mary Matthew Melissa Mohammed Monica Natalie Nathan Nicholas Nicole Noah Olivia Pamela Patricia Patrick "
    "Paul Philip Rebecca Richard Robert Roger Ronald Rose Ruth Samantha Samuel Sandra Scott Sharon Simon Sophia Stephanie "
    "Stephen Steven Susan Teresa Theodore Timothy Veronica Victoria Vincent Virginia Walter William Zoe"
).split()
LAST = (
    "Adams Allen Anderson Baker Bennett Brooks Brown Campbell Carter Clark Collins Cooper Davis Edwards Evans Fisher Foster "
    "Franklin Garcia Gibson Graham Gray Green Hall Hamilton Harris Henderson Hill Howard Hughes Jackson Jenkins Johnson "
    "Jones Kelly Kennedy King Lewis Lopez Marshall Martinez Miller Mitchell Morgan Morris Murphy Nelson Parker Peterson "
    "Phillips Powell Price Reynolds Richardson Roberts Robinson Rogers Russell Sanders Scott Simpson Smith Stewart Sullivan "
    "Taylor Thompson Turner Walker Watson White Williams Wilson Wood Wright Young"
).split()
PLACES = (
    "London Paris Berlin Madrid Rome Vienna Dublin Lisbon Prague Athens Moscow Tokyo Beijing Sydney Melbourne Toronto "
    "Montreal Chicago Boston Denver Seattle Houston Dallas Miami Atlanta Philadelphia Phoenix Detroit California Texas "
    "Florida Virginia Canada Mexico Brazil Argentina France Germany Italy Spain Portugal Norway Sweden Denmark Poland "
    "Greece Turkey Egypt Kenya India China Japan Korea Australia Europe Africa America Asia Amsterdam Barcelona Budapest "
    "Cairo Istanbul Singapore Hong-Kong San-Francisco New-York Los-Angeles Oxford Cambridge Edinburgh Scotland Ireland"
).split()
THINGS = (
    "computer phone camera printer keyboard model program window network server message speaker microphone battery screen "
    "file folder picture song story recipe ticket package letter book car train bus kitchen garden office school library "
    "station airport museum hospital restaurant hotel river mountain island beach forest bridge street city country table "
    "chair door lamp clock mirror blanket pillow bottle glass cup plate spoon knife fork basket bucket ladder hammer "
    "bicycle airplane boat ship truck engine wheel road path field farm village castle tower church market shop store bank "
    "bakery pharmacy theater cinema concert movie piano guitar violin drum painting statue newspaper magazine dictionary "
    "map globe calendar diary notebook pencil eraser ruler envelope stamp coat jacket shirt sweater dress skirt hat scarf "
    "glove shoe boot umbrella suitcase wallet watch ring necklace dog cat horse cow sheep rabbit mouse bird fish whale "
    "apple banana orange lemon cherry potato tomato onion carrot sandwich soup salad cheese bread butter cake cookie "
    "coffee tea juice milk water doctor nurse teacher student lawyer engineer farmer soldier driver pilot singer actor "
    "neighbor brother sister mother father daughter uncle aunt child baby friend stranger visitor customer machine "
    "website password account setting button menu cable charger answer question problem idea plan meeting project report"
).split()
ADJECTIVES = (
    "new old small large fast slow simple useful beautiful quiet loud bright dark warm cold happy sad strange clever "
    "friendly important young tall short long wide narrow deep shallow heavy light soft hard smooth rough clean dirty dry "
    "wet empty full open closed early late cheap expensive rich poor strong weak healthy sick tired hungry thirsty angry "
    "calm brave careful lazy honest polite rude famous ordinary special perfect terrible wonderful exciting boring "
    "dangerous safe comfortable difficult easy possible impossible necessary modern ancient wooden golden silver red blue "
    "green yellow purple white black brown gray pink round square sharp sweet sour bitter salty fresh frozen broken lovely"
).split()
VERBS = (
    "open close start stop find check update download install remove save send share read write play record test run build "
    "move copy print buy sell bring carry clean wash paint repair break lose hide show borrow return order visit describe "
    "remember forget watch choose change cover measure protect replace finish explain"
).split()
ADVERBS = "slowly quickly quietly carefully suddenly finally usually often never always together easily hardly gently".split()
ONES = "zero one two three four five six seven eight nine".split()
TEENS = (
    "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
)
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fifteenth twentieth "
    "thirtieth"
).split()


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


TEMPLATES = """
Hello, how can I help you with the {t} today?|Good morning, {n}.|Good evening, {n}, it is nice to see you.
Please {v} the {t} before {d}.|The {a} {t} is ready.|Could you {v} the {t} for me?|It will take about {x} minutes.
The meeting is on {d}, the {o} of {m}.|I think the {t} is very {a}.|Thank you, {n}, have a nice day.
Turn left at the {t}, then go straight for {x} miles.|There are {x} {a} people in the {t}.|Where is the {a} {t}?
What time does the {t} open on {d}?|I would like {x} tickets, please.|Welcome to the {t}.
The weather in {m} is {a} and the {t} is {b}.|My name is {n}, and this is a {a} {t}.|Let me {v} that for you.
Your order number is {g} {g} {g}.|{n} wants to {v} a {a} {t} this {d}.|We can {v} the {t} in real time.
The {t} was {a}, but the {u} was {b}.|Can you hear me, {n}?|Please wait a moment while I {v} the {t}.
One, two, three, {x}, {y}, {z}.|Is it possible to {v} the {t} without a {u}?|Yes, of course.|No, I don't think so.
I'm sorry, {n}, I can't {v} the {t}.|That's a {a} idea!|Look at that {a} {t}!|It's {h} o'clock in the {p}.|See you on {d} {p}.
Do you know why the {t} is so {a}?|Who left the {a} {t} in the {u}?|When did {n} {v} the {t}?|How many {t}s did you {v}?
Would you like to {v} the {a} {t}?|Why don't we {v} the {t} {e}?|Which {t} do you like best?|Have you seen my {a} {t}?
Did {n} tell you about the {t}?|Are you going to {q} in {m}?|What is the {a} thing in the {t}?|Should I {v} the {t} or the {u}?
Does the {t} cost more than {x} dollars?|Can {n} {v} it by {d}?|Will the {t} be {a} tomorrow?|Is this your {t}?|Was the {t} {a}?
How far is it from {q} to {r}?|How old is your {t}?|Whose {a} {t} is this?|What happened to the {t} in {q}?|Isn't it {a}?
Doctor {l} will see you now.|Mister {l} lives in {q}.|{n} {l} was born in {q} in {Y}.|Professor {l} teaches in {q}.
{n} and {k} moved from {q} to {r}.|Give the {t} to {n} {l}, please.|{n} met {k} at the {t} in {q}.|Missus {l} bought a {a} {t}.
Captain {l} sailed to {q}.|Judge {l} spoke to {n} {l}.|My friend {n} has a {a} {t}.|{n}, {k}, and {j} went to {q} together.
The year was {Y}.|In {Y}, the {t} was {a}.|It costs {x} dollars and {y} cents.|About {x} percent of the {t}s are {a}.
The phone number is {g} {g} {g}, {g} {g} {g} {g}.|Call me at {g} {g} {g} {g}.|The train leaves at {h} {M}.|Chapter {x}, page {y}.
The answer is {x}.|{x} plus {y} is {z}.|The {o} {t} is {a}.|The temperature is {x} degrees.|He was {x} years old.
Room {x} is on the {o} floor.|Take {h} of them every {h} hours.|The {t} is {x} feet high and {y} feet wide.
Flight {x} from {q} arrives at {h} {M}.|We need {x} more {t}s by {d} {p}.|She ran {x} miles in {y} minutes.|The score was {x} to {y}.
After the {t} had closed, we went {e} to the {u}.|If you {v} the {t}, the {u} will be {a}.
She put the {t} in the {a} {u} and sat down to {v} the {w}.|When the {t} is {a}, {n} likes to {v} the {u}.
I wanted to {v} the {t}, but the {u} was too {a}.|Because it was {a}, they {e} went back to the {t}.
The {a} {t} and the {b} {u} were in the {w}.|Nobody could {v} the {a} {t} that {n} had left in {q}.
Speech synthesis runs on an ordinary {t}.|The sound of the {t} was {a} and {b}.|Your {t} has been sent to {q}.
Okay.|Sure, no problem.|Thank you very much.|You're welcome.|Excuse me.|I don't know.|Never mind.|Good night, {n}.|Goodbye, {n}.
Just a moment, please.|Let's go!|Watch out!|Come in.|Sit down, please.|Be careful with the {t}!|What a {a} {t}!|How {a}!
I've never seen such a {a} {t}.|We'll {v} it later.|They're {e} looking for the {t}.|You shouldn't {v} the {t} on {d}.
There's a {t} in my {u}.|He's been to {q} {h} times.|She'd like to {v} a {t}.|I'd rather {v} the {a} one.|That isn't my {t}.
Press the {a} button to {v} the {t}.|Your battery is {x} percent full.|The timer is set for {x} minutes.|I found {h} results for {t}.
Today is {d}, the {o} of {m}.|The {t} in the {u} is on the left.|Turn the {t} {e} to the right.|I couldn't {v} your {t}.
""".strip().replace("\n", "|").split("|")


def template(rnd: random.Random) -> str:
    """One everyday sentence."""

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

    text = rnd.choice(TEMPLATES).format(
        t=rnd.choice(THINGS), u=rnd.choice(THINGS), w=rnd.choice(THINGS), n=rnd.choice(FIRST), k=rnd.choice(FIRST),
        j=rnd.choice(FIRST), l=rnd.choice(LAST), v=rnd.choice(VERBS), d=rnd.choice(DAYS), m=rnd.choice(MONTHS),
        a=rnd.choice(ADJECTIVES), b=rnd.choice(ADJECTIVES), e=rnd.choice(ADVERBS), x=number(rnd), y=number(rnd), z=number(rnd),
        g=rnd.choice(ONES), h=spell(rnd.randint(1, 12)), M=rnd.choice(("fifteen", "thirty", "forty five", "ten", "twenty")),
        o=rnd.choice(ORDINALS), p=rnd.choice(("morning", "afternoon", "evening")), q=place(), r=place(), Y=year(),
    )  # fmt: skip
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
    return finish(f"{rnd.choice(words)} {rnd.choice(('and', 'or', 'of', 'in', 'with'))} {rnd.choice(words)}{mark}")


def collect(wordnet_dir: Path, prose_dir: Path, heldout: list[str], total: int, seed: int) -> Iterator[str]:
    """At most `total` different sentences in random order."""
    rnd = random.Random(seed)
    examples, glosses = wordnet(wordnet_dir)
    books = prose(sorted(glob.glob(f"{prose_dir}/**/data/*.txt", recursive=True)))
    counts = Counter(w for s in examples + books + glosses for w in re.findall(r"[a-z]+(?:'[a-z]+)?", s))
    lemmas = {line.split(" ", 1)[0] for f in sorted(wordnet_dir.glob("index.*")) for line in f.read_text("latin1").splitlines()}
    common = [w for w, c in counts.items() if c >= 4 and len(w) > 2 and w in lemmas and not _UNWANTED.search(w)]
    sources = {
        "template": [template(rnd) for _ in range(int(total * 0.4))],
        "short": [short(common, rnd) for _ in range(int(total * 0.12))],
        "example": examples,
        "book": books,
        "gloss": glosses,
    }
    share = {"template": 0.16, "short": 0.07, "example": 0.36, "book": 0.18, "gloss": 1.0}
    seen = {key(s) for s in heldout}
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
    yield from paired
