"""Figure 2 shows the bytes of the tables."""

from pathlib import Path

from plfl.report.figures import draw
from plfl.results.tables import Tables
from tests.helpers import fake_results
from tests.report.figures.conftest import Results


def test_bytes_are_those_of_the_records(results: Results) -> None:
    tables = results("SMALL")
    axes = draw("fig2_bytes", tables)["fig2_bytes"].axes
    heading, *names = "\n".join(axis.get_title("left") for axis in axes).split("\n")
    assert heading == "Bytes per round and client, by sharing scheme"
    assert names == ["", "P1: all shared", "P2: body shared", "P3: nothing shared"]
    for axis, count in zip(axes, (241104, 14000, 0), strict=True):
        down, up = axis.containers
        assert [bar.get_width() for bar in (*down, *up)] == [count, count]
        assert {text.get_text() for text in axis.texts} == {f"{count:,}".replace(",", "\u202f")}
        assert axis.get_xlim() == axes[0].get_xlim(), "lengths of bars are compared with the eye"
        assert axis.get_xlim()[0] == 0
        assert [label.get_text() for label in axis.get_yticklabels()] == [""]


def test_bytes_are_those_of_each_method(tmp_path: Path) -> None:
    methods = ["fedopt", "scaffold", "ifca", "fedac", "fedeff"]
    axes = {"method": methods, "sharing": ["P1", "P2", "P3"]}
    grid = fake_results.METHODS["grid"] | axes
    fake_results.write(tmp_path, fake_results.METHODS | {"grid": grid})
    tables = Tables(tmp_path)
    records = tables.records(["sharing", "method", "bytes_up"], split="train")
    figure = draw("fig2_bytes", tables)["fig2_bytes"]
    assert figure.axes[0].get_title("left").startswith("Bytes by scheme and method")
    for axis, scheme in zip(figure.axes[:2], ("P1", "P2"), strict=True):
        names = [label.get_text() for label in axis.get_yticklabels()]
        assert names == ["FedOpt", "SCAFFOLD", "IFCA", "FedAC", "FedEff"]
        _, up = axis.containers
        for bar, method in zip(up, methods, strict=True):
            here = records[(records["sharing"] == scheme) & (records["method"] == method)]
            assert {bar.get_width()} == set(here["bytes_up"])
    widths = [bar.get_width() for bar in figure.axes[0].containers[0]]
    assert widths == [241104 * copies for copies in (1, 2, 3, 2, 1)]
    alone = figure.axes[2]
    assert [label.get_text() for label in alone.get_yticklabels()] == [""], "one for all methods"
    assert [bar.get_width() for bars in alone.containers for bar in bars] == [0, 0]
