"""Speak an LLM's answer while it is being written: python examples/llm_to_speaker.py [FILE.wav]

Without FILE.wav it plays on the default sound device (pip install 'rtts[local]').
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

import rtts
from rtts.stream.writer import write_wav

ANSWER = "Of course! Here is a **short** answer. It was spoken before it was complete."


async def llm() -> AsyncIterator[str]:
    """Stands for your LLM: yield the text of every delta, for example ``chunk.choices[0].delta.content``."""
    for word in ANSWER.split(" "):
        yield word + " "
        await asyncio.sleep(0.05)


async def main() -> None:
    async with rtts.open() as tts, tts.session(seed=1) as session:
        if len(sys.argv) > 1:
            await asyncio.gather(session.speak(llm()), write_wav(session, sys.argv[1]))
            return
        async with rtts.local.Player(session) as player:
            await session.speak(llm())
            await player.drained()


asyncio.run(main())
