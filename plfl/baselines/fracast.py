"""Fracast-0, a pretrained model of time series, whose weights come with `pip install fracast`.

Its training data (LOTSA) contain the EULP buildings, London's smart meters and several sites of the
Building Data Genome Project 2. Licence: Apache 2.0. Source: https://github.com/ztxtech/fracast-0
"""

from collections.abc import Mapping
from typing import ClassVar

from plfl.base.extras import require
from plfl.baselines.pretrained import PretrainedElsewhere, PretrainedFit
from plfl.data.dataset import Dataset
from plfl.interfaces.baseline import FitSettings, FittedBaseline, Floats


class Fracast(PretrainedElsewhere):
    """Fracast-0, not trained further. It reads a client's loads and has the levels 0.1 to 0.9;
    levels between them are interpolated, and those beyond get the outermost."""

    name: ClassVar[str] = "fracast"
    label: ClassVar[str] = "Fracast-0 (pretrained)"
    about: ClassVar[str] = "The pretrained model Fracast-0, as it is (`pip install fracast`)."
    has_quantiles: ClassVar[bool] = True

    context: int = 2048
    """The number of loads that it reads, at most."""

    def count_context(self, interval: int) -> int:
        return self.context

    def fit(
        self, dataset: Dataset, settings: FitSettings, members: Mapping[str, FittedBaseline]
    ) -> FittedBaseline:
        require("pretrained", "the baseline fracast")
        from fracast import FracastModel

        model = FracastModel.from_pretrained(weights="fp32")

        def forecasts(loads: Floats, steps: int) -> Floats:
            quantiles: Floats = model.forecast_batch(loads, horizon=steps)
            return quantiles

        model_levels = tuple(map(float, model.quantiles))
        context = min(self.context, model.context_length)
        return PretrainedFit(dataset, forecasts, context, model_levels, settings.levels)
