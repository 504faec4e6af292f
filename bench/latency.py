"""The streaming component on this machine: first sound, gaps, speed, barge-in. What ``rtts bench`` measures, kept.

    python -m bench.latency [NAME ...] [--model M] [--threads AR,CODEC] [--quick] [--text T] [--label L]

NAME is latency, throughput, long, codec or barge-in; without one, all of them. Results go to
``bench/results/<label>-<name>.json``, with a picture beside each.
"""

from __future__ import annotations

import argparse
from typing import get_args

from bench import machine
from rtts.bench.run import PLOTS, Name, run
from rtts.cli.loading import load
from rtts.errors import RttsError


def main() -> None:
    parser = argparse.ArgumentParser(description="The streaming component on this machine.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(get_args(Name)))
    parser.add_argument("--model", help="what rtts say takes; default: the voice that ships with the project")
    parser.add_argument("--threads", metavar="AR,CODEC")
    parser.add_argument("--quick", action="store_true", help="a few scenarios and runs")
    parser.add_argument("--text", help="what throughput and long speak; a short one for a large model")
    parser.add_argument("--label", default="lark", help="first part of the files' names")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(get_args(Name))
    if unknown:
        parser.error(
            f"{', '.join(sorted(unknown))}: no such benchmark; there are {', '.join(get_args(Name))}"
        )
    try:
        model = load(arguments.model, arguments.threads)
    except RttsError as error:
        parser.error(str(error))
    for name in arguments.names or get_args(Name):
        print(f"== {name}", flush=True)
        result = run(name, model, text=arguments.text, quick=arguments.quick)
        path = machine.write(f"{arguments.label}-{name}", machine.invocation("bench.latency"), result)
        PLOTS[name](result, path.with_suffix(".png"))


if __name__ == "__main__":
    main()
