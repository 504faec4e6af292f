"""Load a model once and speak every line of standard input to numbered files: ... | python examples/batch.py DIR"""

from __future__ import annotations

import sys
from pathlib import Path

import rtts

if len(sys.argv) != 2:
    sys.exit(__doc__)
folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
model = rtts.load()
for number, line in enumerate(filter(str.strip, sys.stdin), start=1):
    path = folder / f"{number:04}.wav"
    rtts.say(line, model=model, seed=number).write(path)
    print(path)
