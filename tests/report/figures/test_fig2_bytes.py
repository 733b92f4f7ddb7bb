"""Figure 2 shows the bytes of the tables."""

from pathlib import Path

from plfl.report.figures import draw
from plfl.results.tables import Tables
from tests.helpers import fake_results


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
