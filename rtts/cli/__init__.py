"""The ``rtts`` command: a thin shell over the package that turns errors into one line and an exit status."""

from __future__ import annotations

import logging
import os
import sys
import traceback
import warnings
from collections.abc import Sequence

from rtts.cli.app import app
from rtts.cli.options import Shared
from rtts.errors import RequestError, RttsError

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


def main(args: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        args: the words after ``rtts``; None takes them from the process.

    Returns:
        0 done, 1 a run-time failure, 2 bad usage, 130 interrupted from the keyboard.
    """
    settings = Shared()
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="rtts: %(message)s")
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # libraries address them to programmers
    try:
        status = app(args, prog_name="rtts", standalone_mode=False, obj=settings)
        sys.stdout.flush()
    except KeyboardInterrupt:
        status = INTERRUPTED
    except SystemExit as exit_:
        # The command line library's own way out of a broken pipe.
        status = exit_.code
        _hush_stdout()
    except BrokenPipeError:
        # The reader of our output has gone; what it took is all it wanted.
        _hush_stdout()
        return FAILED
    except Exception as error:
        return _report(error, settings)
    if status == INTERRUPTED:
        print("rtts: interrupted", file=sys.stderr)
    return status if isinstance(status, int) else OK


def _report(error: Exception, settings: Shared) -> int:
    """One line on stderr that says what and what to do; with ``--debug`` the traceback before it."""
    if settings.debug:
        traceback.print_exception(error)
    usage = getattr(error, "format_message", None)  # a usage error of typer, whichever click it carries
    if usage is not None:
        message, status = f"{usage()} (see 'rtts --help')", USAGE
    elif isinstance(error, RequestError):
        message, status = str(error), USAGE
    elif isinstance(error, RttsError):
        message, status = str(error), FAILED
    elif isinstance(error, MemoryError):
        message, status = "out of memory; speak shorter text, or use a smaller model or precision", FAILED
    elif isinstance(error, OSError):
        message, status = f"{error.filename or 'output'}: {error.strerror or error}", FAILED
    else:
        kind = type(error).__name__
        message, status = f"unexpected {kind}: {error}; please report it with the output of --debug", FAILED
    print("rtts:", " ".join(message.split()), file=sys.stderr)
    return status


def _hush_stdout() -> None:
    """Keep the interpreter from flushing into the broken pipe once more on its way out."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
