"""How many frames an utterance may take: the guard against a missing end of speech.

In 0.3-0.5 % of runs this model family does not emit its end-of-speech code and would go on babbling up to
``max_new_tokens`` (655 s). The default cap follows from the text:

    75 frames + 16 frames for each text id           (a frame is 80 ms: 6 s + 1.28 s an id)

Where the numbers come from, at 12.5 frames/s: ordinary English is 150 words/min at 1.3 ids a word, 4 frames
an id; Chinese and Japanese are 4-5 characters/s at 1-1.5 characters an id, 3-4 frames an id. A very slow speaker
(one word a second) takes 10. A long number takes 9-10 ("1234567890" is 10 ids and 8 s when read out), because every
digit is an id of its own and may become two words. So 16 leaves a factor of 4 for normal speech and 1.6 for the slow
cases, and the constant covers pauses, breaths and the few ids that stand for a whole phrase (a single id can be a
seven-character Chinese name).
"""

from __future__ import annotations

from rtts_engine.errors import RequestError, TextError

BASE_FRAMES = 75
FRAMES_PER_TEXT_ID = 16


def default_max_frames(
    n_text_ids: int, *, max_new_tokens: int, frames_per_id: int = FRAMES_PER_TEXT_ID
) -> int:
    """Default frame cap for a text of ``n_text_ids`` ids (the spoken text only).

    Never above ``max_new_tokens - 1``, which is what the official loop yields at most for that value of
    ``generation_config.json``. With incremental text, ask again as ids arrive.

    Raises:
        TextError: there are no ids.
        RequestError: ``max_new_tokens`` leaves no frame.
    """
    if n_text_ids < 1:
        raise TextError("there is no text to speak; give at least one word")
    if max_new_tokens < 2:
        raise RequestError(
            f"max_new_tokens is {max_new_tokens}; expected at least 2 (one frame less is generated)"
        )
    return min(BASE_FRAMES + frames_per_id * n_text_ids, max_new_tokens - 1)


def resolve_max_frames(
    requested: int | None,
    n_text_ids: int,
    *,
    max_new_tokens: int,
    frames_per_id: int = FRAMES_PER_TEXT_ID,
) -> int:
    """The caller's own frame cap, whatever ``max_new_tokens`` says; the default cap when ``requested`` is None.

    An explicit argument goes before ``generation_config.json``, as in the official package.

    Raises:
        RequestError: ``requested`` is below 1, or as ``default_max_frames``.
        TextError: as ``default_max_frames``.
    """
    if requested is None:
        return default_max_frames(n_text_ids, max_new_tokens=max_new_tokens, frames_per_id=frames_per_id)
    if requested < 1:
        raise RequestError(f"max_frames is {requested}; expected at least 1")
    return requested
