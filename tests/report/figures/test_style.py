"""How figures are saved."""

from pathlib import Path

from matplotlib.figure import Figure

from plfl.report.figures.style import save


def test_a_layout_that_differs_in_its_last_bits_gives_the_same_files(tmp_path: Path) -> None:
    files = []
    for name, noise in (("a", 0.0), ("b", 1e-13)):
        figure = Figure((2, 2))
        figure.add_axes((0.1 + noise, 0.2, 0.7, 0.7)).plot([0, 1], [0, 1])
        files.append(save(figure, tmp_path / name))
    assert [path.read_bytes() for path in files[0]] == [path.read_bytes() for path in files[1]]
