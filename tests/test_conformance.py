"""benchmarks/conformance: plfl agrees with the reference, and the page shows what is stored."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.conformance import own, quadratics, report
from benchmarks.conformance.probes import BODY, PROBES
from benchmarks.conformance.report import DEVIATIONS, LIBRARIES

STORED = report.stored()
RESULTS = [(library, name) for library, probes in STORED["results"].items() for name in probes]


@pytest.mark.parametrize("name", PROBES)
def test_plfl_agrees_with_the_reference(name: str) -> None:
    found = own.run(Path(), PROBES[name])
    assert report.difference(vars(found), PROBES[name].expected()) < 1e-12
    stored = STORED["results"]["plfl"][name]
    np.testing.assert_allclose(stored["x"], found.x, rtol=0, atol=1e-12)
    np.testing.assert_allclose(stored["personal"], found.personal, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("library", "name"), RESULTS)
def test_every_stored_result_agrees_or_is_explained(library: str, name: str) -> None:
    given = report.verdict(library, name, STORED["results"][library][name])
    assert re.fullmatch(r"agrees|–|\*\*[\d.]+\*\* \(\d+\)", given)


@pytest.mark.parametrize(("number", "deviation"), enumerate(DEVIATIONS, 1))
def test_every_deviation_is_seen_in_each_of_its_probes(number, deviation):
    library, names = deviation
    for name in names:
        given = report.verdict(library, name, STORED["results"][library][name])
        assert given.endswith(f"({number})")


def test_all_is_stored_and_the_page_shows_it() -> None:
    assert list(STORED["results"]) == [library.name for library in LIBRARIES]
    assert all(set(found) == set(PROBES) for found in STORED["results"].values())
    text = report.PAGE.read_text(encoding="utf-8")
    assert report.page(text, STORED) == text
    explained = re.findall(r"^(\d+)\. \*\*([\w-]+): ", text, re.MULTILINE)
    assert explained == [(str(n), library) for n, (library, _) in enumerate(DEVIATIONS, 1)]


def test_other_numbers_deviate_unexplained() -> None:
    name = "ditto"
    expected = PROBES[name].expected()
    found = {"x": expected.x, "personal": expected.personal + 1e-6}
    assert report.verdict("PFLlib", name, found) == "**1e-06** (unexplained)"


def test_the_model_for_libraries_has_the_gradients_of_the_quadratics() -> None:
    model = quadratics.Model((2.0, 3.0)).double()
    for client in range(2):
        row, label = quadratics.row(BODY, client)
        loss = quadratics.HalfSquare()(model(row[None]), label[None])
        found = torch.autograd.grad(loss, list(model.parameters()))
        expected = BODY.gradient(client, np.array([2.0, 3.0]))
        np.testing.assert_allclose([g.item() for g in found], expected, rtol=1e-15)


def test_the_model_notes_what_is_scored_and_only_that() -> None:
    quadratics.scored.clear()
    model = quadratics.Model((2.0, 3.0)).double()
    model(quadratics.row(BODY, 1)[0][None])
    assert quadratics.scored == []
    model(quadratics.row(BODY, 1, test=True)[0][None])
    assert quadratics.scored == [(1, 2.0, 3.0)]
