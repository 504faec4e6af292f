"""How soon the first sound comes, step by step, on this machine: python examples/latency.py [MODEL]"""

from __future__ import annotations

import asyncio
import sys

import rtts


async def main(model: str | None) -> None:
    async with rtts.open(model) as tts, tts.session(seed=1) as session:
        for text in ("Hello there, how are you?", "It is nice to hear from you."):
            session.feed(text)
            session.end()
            seconds = 0.0
            async for chunk in session:
                seconds += len(chunk.samples) / 24000
            metrics = session.done.metrics
            steps = metrics.timeline
            print(
                f"{text} ({seconds:.1f} s of speech, RTF {metrics.rtf:.2f}): prompt read after "
                f"{steps.prefill_ms:.0f} ms, first frame {steps.frame_ms:.0f} ms, first sound {steps.chunk_ms:.0f} ms"
            )


asyncio.run(main(*sys.argv[1:2] or [None]))
