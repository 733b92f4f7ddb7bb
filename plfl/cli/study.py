"""`plfl study`: runs the workflow on a study with Snakemake."""

import argparse
import os
import sys
from pathlib import Path

from plfl.base import shipped
from plfl.base.errors import PlflError, Problem
from plfl.base.extras import require
from plfl.base.files import hold
from plfl.cli.common import Commands, add_parser
from plfl.data import sources
from plfl.results.statistics import undecidable
from plfl.results.words import describe_times
from plfl.study import Study, split_variant

EXAMPLES = """
plfl study demo.yaml
plfl study demo.yaml --dry-run   # all that follows the file is for Snakemake
plfl study demo.yaml --cores 4 --forcerun page
"""


def add(commands: Commands) -> None:
    parser = add_parser(commands, "study", EXAMPLES, run)
    parser.add_argument("config", type=Path, help="configuration of the study")
    text = "targets and options of Snakemake; see `snakemake --help`"
    parser.add_argument("snakemake", nargs=argparse.REMAINDER, help=text).required = False


def run(options: argparse.Namespace) -> None:
    """Replace this process by Snakemake, so that signals and the exit status are Snakemake's."""
    require("study", "plfl study")
    snakemake_options = options.snakemake
    snakemake_options = (
        snakemake_options[1:] if snakemake_options[:1] == ["--"] else snakemake_options
    )
    # All errors of the user are reported before Snakemake starts.
    study = Study.load(options.config)
    file, label = split_variant(options.config)
    if label is not None:
        text = f"is a variant, and the workflow runs all those of {file}"
        raise PlflError(Problem(options.config, text, f"write plfl study {file}"))
    elsewhere = any(option.startswith(("-d", "--directory")) for option in snakemake_options)
    if not (elsewhere or os.access(Path.cwd(), os.W_OK)):
        raise PlflError(
            Problem(
                Path.cwd(),
                "cannot be written, but the results go there",
                "change to a folder of your own",
            )
        )
    with_data = {
        study.plan.data_labels[label]: variant.data for label, variant in study.variants.items()
    }
    for data in with_data.values() if not elsewhere else ():
        for state in data.states:
            sources.source_of(data).own_files(data, state)
    if not (elsewhere or {"-n", "--dry-run", "--dryrun"} & set(snakemake_options)):
        busy = "another process is running this study; wait until it has finished, or stop it"
        hold(study.paths.results / ".lock", busy=busy).release()
    notes = [describe_times(study), undecidable(study)]
    for note in filter(None, notes):
        print(f"{study.name}: {note}", file=sys.stderr)
    # -P: a file in the current folder must not replace a module that Snakemake imports.
    # While Snakemake itself is imported, Ctrl-C would end in a traceback.
    start = "from plfl.base.interrupts import exit_on_ctrl_c; exit_on_ctrl_c()\n"
    start += "from plfl.pipeline.screen import main; main()"
    command = [sys.executable, "-P", "-c", start, "--configfile", str(options.config)]
    # Not after --configfile, which takes several files: a target would count as another file.
    command += ["--snakefile", str(shipped.main_snakefile()), *snakemake_options]
    sys.stdout.flush()
    os.execve(sys.executable, command, os.environ | _writable_cache())


def _writable_cache() -> dict[str, str]:
    """A variable that keeps Snakemake's cache in the current folder if that of the user, where it
    would be by default, cannot be written."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    try:
        cache.mkdir(parents=True, exist_ok=True)
        if os.access(cache, os.W_OK):
            return {}
    except OSError:
        pass
    return {"XDG_CACHE_HOME": str(Path(".snakemake/cache").resolve())}
