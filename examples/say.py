"""Speak a sentence to a file: python examples/say.py "Good morning." morning.wav"""

from __future__ import annotations

import sys

import rtts

if len(sys.argv) != 3:
    sys.exit(__doc__)
audio = rtts.say(sys.argv[1], seed=1)
audio.write(sys.argv[2])
print(f"{sys.argv[2]}: {audio.duration_s:.2f} s")
