"""How well a voice speaks: errors heard by an independent recogniser, endings, pace, pitch, signal, clicks, speed.

``python -m bench.voice --help``. The pure parts (``sound``, ``spectra``, ``endings``, ``rates``, ``summary``,
``tables``) need numpy only, ``pitch`` soxr; speaking needs the product, listening needs the extra ``judge``.
"""
