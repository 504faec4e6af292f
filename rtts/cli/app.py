"""The command table. Commands import what they need when they run, so that ``rtts --help`` is quick."""

from __future__ import annotations

import typer

from rtts.cli import batch, bench, clone, doctor, models, say
from rtts.cli.options import Debug, Version

app = typer.Typer(
    name="rtts",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def root(context: typer.Context, debug: Debug = False, version: Version = False) -> None:
    """Realtime text to speech: Qwen3-TTS on ncnn."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.command("say")(say.say)
app.command("batch")(batch.batch)
app.command("clone")(clone.clone)
app.command("convert")(models.convert)
app.command("pull")(models.pull)
app.command("models")(models.models)
app.command("voices")(models.voices)
app.command("bench")(bench.bench)
app.command("doctor")(doctor.doctor)
