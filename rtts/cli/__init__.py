"""The ``rtts`` command: a thin shell over the package that turns errors into one line and an exit status."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import TYPE_CHECKING

from rtts.errors import RequestError, RttsError

if TYPE_CHECKING:
    from rtts.cli.options import Shared

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
SIGNALLED = 128
"""Plus the number of the signal that ended the command."""


def main(args: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        args: the words after ``rtts``; None takes them from the process.

    Returns:
        0 done, 1 a run-time failure, 2 bad usage (an unfit text, voice, language or model, too), 130 interrupted
        from the keyboard, 143 terminated.
    """
    _open_streams()
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="rtts: %(message)s")
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # libraries address them to programmers
    settings: Shared | None = None
    try:
        # Imported here, so that an interruption meets this handler even while the command line library loads.
        from rtts.cli.app import app
        from rtts.cli.options import Shared

        settings = Shared()
        with _orderly_end():
            status = app(args, prog_name="rtts", standalone_mode=False, obj=settings)
            sys.stdout.flush()
    except KeyboardInterrupt:
        status = INTERRUPTED
    except SystemExit as exit_:
        # A signal, or the command line library's own way out of a broken pipe.
        status = exit_.code
        _hush_stdout()
    except BrokenPipeError:
        # The reader of our output has gone; what it took is all it wanted.
        _hush_stdout()
        return FAILED
    except Exception as error:
        return _report(error, debug=settings is not None and settings.debug)
    if status == INTERRUPTED:
        print("rtts: interrupted", file=sys.stderr)
    return status if isinstance(status, int) else OK


def _open_streams() -> None:
    """Whatever started us may have closed them; and a name that is not UTF-8 must not end a command that succeeded."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


@contextlib.contextmanager
def _orderly_end() -> Iterator[None]:
    """Signals that end a process unwind it instead, so that no half file stays behind."""

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(SIGNALLED + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    # One that is ignored (nohup) stays so.
    before = {
        number: signal.signal(number, end) for number in numbers if signal.getsignal(number) == signal.SIG_DFL
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _report(error: Exception, *, debug: bool) -> int:
    """One line on stderr that says what and what to do; with ``--debug`` the traceback before it."""
    if debug:
        traceback.print_exception(error)
    usage = getattr(error, "format_message", None)  # a usage error of typer, whichever click it carries
    if usage is not None:
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "rtts"
        told = usage().replace(": Value error, ", ": ")  # the words of a library below typer
        message, status = f"{told} (see '{command} --help')", USAGE
    elif isinstance(error, RequestError):
        message, status = str(error), USAGE
    elif isinstance(error, RttsError):
        message, status = str(error), FAILED
    elif isinstance(error, MemoryError):
        message, status = "out of memory; speak shorter text, or use a smaller model or precision", FAILED
    elif isinstance(error, ImportError):
        message, status = (
            f"a package is missing or broken ({error}); reinstall rtts, see 'rtts doctor'",
            FAILED,
        )
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
