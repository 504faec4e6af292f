"""``python -m rtts``."""

from __future__ import annotations

import sys

from rtts.cli import main

if __name__ == "__main__":
    sys.exit(main())
