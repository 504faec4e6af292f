"""How exact each precision is against fp32: hidden states, choices, sound, words; ``python -m bench.precision --help``.

``figures`` (what is compared), ``page`` (the table) need numpy only; ``networks`` runs the engine; ``words`` needs the
extra ``judge``.
"""
