"""LightGBM that a federation grows on the errors of a model of public meters, which costs nothing
(docs/public.md)."""

from collections.abc import Mapping
from typing import ClassVar

from plfl.baselines.lightgbm_federated import LightgbmFederated
from plfl.baselines.public import Public
from plfl.baselines.trees import LAGGED, Design, TreesFit
from plfl.data.dataset import Dataset
from plfl.interfaces.baseline import Arrays, FitSettings, FittedBaseline
from plfl.interfaces.program import ProgramPart, ProgramParts


class LightgbmOnPublic(LightgbmFederated, Public):
    """`lightgbm_federated` whose trees forecast the change from the forecast of `public`, or from
    the last load where that has none."""

    name: ClassVar[str] = "lightgbm_on_public"
    label: ClassVar[str] = "LightGBM, federated, on the public model"
    about: ClassVar[str] = (
        "Gradient-boosted trees that clients grow together on the errors of a model of public "
        "meters; they send sums of gradients and counts, not readings."
    )

    @property
    def design(self) -> Design:
        return LAGGED._replace(base=self.choose)

    def fit(
        self, dataset: Dataset, settings: FitSettings, members: Mapping[str, FittedBaseline]
    ) -> TreesFit:
        self.choose_unseen(dataset)  # refuses what that model cannot forecast, or knows
        return super().fit(dataset, settings, members)

    def program(self, arrays: Arrays, parts: ProgramParts) -> ProgramPart | None:
        return None  # the public model is no part of ONNX programs
