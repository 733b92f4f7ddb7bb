"""The tables of results.json.

python benchmarks/report.py
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plfl.base.files import write_text

FOLDER = Path(__file__).parent
BEGIN, END = "<!-- make bench -->", "<!-- /make bench -->"
PLAIN = "plain, Adam(fused=True)"
PLAIN_ADAMW = "plain, AdamW(fused=True)"
ENGINES = ("stacked", "fused")
CODED = {"channel": "the paper's model", "channel-meters": "the MLP"}
"""Studies of codecs, and what they train."""


@dataclass(frozen=True)
class Limit:
    """Something that must reach a limit."""

    name: str
    value: float
    limit: float
    aim: float
    unit: str = ""
    at_least: bool = False

    @property
    def margin(self) -> float:
        """How many times better than the limit it is."""
        ratio = self.value / self.limit
        return ratio if self.at_least else 1 / ratio

    def say(self, value: float) -> str:
        """A value with its unit."""
        return f"{value:,.3g}{self.unit}"

    @property
    def sign(self) -> str:
        """≥ or ≤."""
        return "≥" if self.at_least else "≤"


def limits(results: dict[str, Any]) -> list[Limit]:
    """What was measured, beside what must be reached."""
    rates, job = results["speed"]["1"]["client_steps_per_second"], results["job"]
    plain, scaling = rates[PLAIN], results["scaling"]
    recipe = results["recipe"]["client_steps_per_second"]
    heads = results["quantiles"]["client_steps_per_second"]
    recipe_job, codecs = results["recipe_job"], results["codecs"]
    turns = math.ceil(9 / results["machine"]["cores"])

    def share(part: str) -> float:
        return 100 * float(job["parts"][part] / job["seconds"])

    cost = {n: c["seconds_per_client_step"] for n, c in results["clients"].items()}
    return [
        Limit("fused / plain loop, one thread", rates["fused"] / plain, 14, 18, "×", True),
        Limit("stacked / plain loop, one thread", rates["stacked"] / plain, 2, 4, "×", True),
        Limit(
            "recipe: fused / plain loop", recipe["fused"] / recipe[PLAIN_ADAMW], 8, 12, "×", True
        ),
        Limit(
            "quantiles: fused / plain loop", heads["fused"] / heads[PLAIN_ADAMW], 8, 12, "×", True
        ),
        Limit(
            "slowest model: best engine / plain loop",
            min(_best(row) for row in results["models"]),
            0.95,
            2,
            "×",
            True,
        ),
        Limit(
            "recipe: 10 clients of 5,000 steps, one core",
            results["recipe"]["seconds_per_training"],
            4,
            2,
            " s",
        ),
        Limit(
            "all cores / one core, relative to a matrix product",
            scaling["fused"] / scaling["product"],
            0.9,
            1.0,
            "×",
            True,
        ),
        Limit("all but client-steps, part of a job", 100 - share("client-steps"), 25, 10, " %"),
        Limit("evaluation, part of a job", share("evaluation"), 10, 10, " %"),
        Limit(
            "evaluation, part of a job of the recipe",
            100 * recipe_job["parts"]["evaluation"] / recipe_job["seconds"],
            10,
            10,
            " %",
        ),
        Limit("the server and the rest, part of a job", share("server and the rest"), 10, 10, " %"),
        Limit("180 cells: nine jobs on all cores", turns * job["seconds"] / 60, 20, 8, " min"),
        Limit(
            "client-step with 1,200 clients / with 12", cost["1200"] / cost["12"], 1.15, 1.05, "×"
        ),
        Limit("peak memory of a job", job["peak_mib"] / 1024, 2, 1, " GiB"),
        *(
            Limit(f"{model}: `ef21+q3+rc` / no codecs", codecs[name]["ratio"], 1.15, 1.05, "×")
            for name, model in CODED.items()
        ),
        Limit("`make smoke`, processor time", results["smoke"]["processor_seconds"], 35, 25, " s"),
    ]


def tables(results: dict[str, Any]) -> str:
    """All tables, in Markdown."""
    load, smoke = results["load"], results["smoke"]
    parts = [
        f"`make bench` on {_machine(results['machine'])}, while other programs were running (load "
        f"of at most {max(x for part, x in load.items() if part != 'others'):.1f}).",
        *(
            f"The part `{part}` was measured again, on {_machine(machine)}."
            for part, machine in results["elsewhere"].items()
        ),
        _table(
            ["quantity", "limit", "aim", "measured"],
            [
                [
                    x.name,
                    f"{x.sign} {x.say(x.limit)}",
                    x.say(x.aim),
                    x.say(x.value) + ("" if x.margin >= 1 else " (missed)"),
                ]
                for x in limits(results)
            ],
        ),
        "### Client-steps per second",
        "A client-step is one local step of one client. Rounds of 12 clients are timed in turn. "
        "The last column relates the float32 rate to that of a 2,048² matrix product on as many "
        "threads.",
        "On a machine that is busy with other programs the threads of PyTorch wait for each other, "
        "so its rows with several threads are not meaningful."
        if load["speed"] > results["machine"]["cores"] + 1
        else "",
        *(_speed(int(n), measured) for n, measured in results["speed"].items()),
        "The recipe (config/recipe.yaml: an MLP of 11,201 parameters, minibatches of 64, AdamW), "
        "by processor time; the matrix product is that of oneDNN, which uses AVX-512:",
        _speed(1, results["recipe"], PLAIN_ADAMW),
        "Every built-in model, in the same way, with Adam, on the paper's windows (8 features of "
        "12 rows, minibatches of 16) and on windows with 96 covariates (minibatches of "
        "64): the plain loop's rate, then how many times as fast the engines are.",
        _models(results["models"]),
        "Other tools' simulations of the paper's rounds, one worker with one thread:",
        _others(results["others"], PLAIN),
        "### Larger studies",
        "Whole rounds of 25 local steps on one thread, each number of clients or cells in its own "
        "process. Every client has a year of data.",
        _growth("clients", results["clients"]),
        _growth("cells", results["cells"]),
        "### Methods",
        "The speed of whole rounds relative to `fedopt` with the same optimisers, in client-steps "
        "per second of processor time. In brackets: in minibatch gradients per second, for methods "
        "that compute several in a step.",
        ", ".join(f"`{n}` {_ratio(x)}" for n, x in results["methods"].items()) + ".",
        f"`make smoke` takes {smoke['processor_seconds']:.1f} s of processor time, "
        f"{smoke['seconds']:.0f} s in all. Each of its jobs is a Python process.",
    ]
    return "\n\n".join(part for part in parts if part)


def _ratio(values: dict[str, float] | str) -> str:
    if isinstance(values, str):
        return f"(refused: {values})"
    steps, gradients = (f"{values[by]:.2f}" for by in ("steps", "gradients"))
    return steps if steps == gradients else f"{steps} ({gradients})"


def _speed(threads: int, measured: dict[str, Any], plain: str = PLAIN) -> str:
    rates = measured["client_steps_per_second"]
    gflops, step = measured["product_gflops"], measured["step_gflop"]
    rows = [
        [name, f"{rate:,.0f}", f"{rate / rates[plain]:.2f}", f"{100 * rate * step / gflops:.0f} %"]
        for name, rate in rates.items()
    ]
    title = f"{threads} thread{'s' if threads > 1 else ''} (product: {gflops:,.0f} GFLOP/s)"
    return _table([title, "client-steps/s", "/ plain fused loop", "/ product"], rows)


def _others(rates: dict[str, float | str], plain: str) -> str:
    rows = []
    for tool, rate in rates.items():
        if isinstance(rate, str):
            rows.append([tool, f"not measured: {rate}", ""])
        else:
            ratio = rate / float(rates[plain])
            rows.append([tool, f"{rate:,.0f}", f"{ratio:.2f}"])
    return _table(["", "client-steps/s", "/ plain fused loop"], rows)


def _best(row: dict[str, Any]) -> float:
    """The fastest engine of a model, relative to the plain loop."""
    return max(row.get("fused", 0.0), row["stacked"]) / float(row["loop"])


def _models(measured: list[dict[str, Any]]) -> str:
    """A row for each model: the plain loop's rate and the engines' ratios, on each windows."""
    windows = list(dict.fromkeys(row["windows"] for row in measured))
    cells: dict[str, dict[str, str]] = {}
    for row in measured:
        ratios = [
            f"{engine} {row[engine] / row['loop']:.1f}" for engine in ENGINES if engine in row
        ]
        of_model = cells.setdefault(row["model"], {})
        of_model[row["windows"]] = f"{row['loop']:,.0f}: {', '.join(ratios)}"
    rows = [[f"`{name}`", *(found.get(w, "") for w in windows)] for name, found in cells.items()]
    return _table(["model", *windows], rows)


def _growth(what: str, measured: dict[str, Any]) -> str:
    rows = [
        [f"{int(n):,}", f"{1e6 * x['seconds_per_client_step']:.1f} µs", f"{x['peak_mib']:,.0f} MiB"]
        for n, x in measured.items()
    ]
    return _table([what, "time per client-step", "peak memory"], rows)


def _machine(m: dict[str, Any]) -> str:
    return (
        f"{m['cores']} cores of {m['processor']} ({m['instructions']}), {m['memory_gib']} GiB, "
        f"{m['system']}, Python {m['python']}, PyTorch {m['torch']}, {m['compiler']}"
    )


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [f"| {' | '.join(line)} |" for line in [head, *rows]]
    return "\n".join([lines[0], f"|{'---|' * len(head)}", *lines[1:]])


def write(results: dict[str, Any]) -> None:
    """Renew what is between the marks in README.md."""
    readme = FOLDER / "README.md"
    before, rest = readme.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    write_text(readme, f"{before}{BEGIN}\n{tables(results)}\n{END}{after}")


if __name__ == "__main__":
    write(json.loads((FOLDER / "results.json").read_text(encoding="utf-8")))
