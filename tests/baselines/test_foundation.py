"""Foundation models against their packages, called as their authors do."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from plfl.base.errors import PlflError
from plfl.baselines.further.chronos import Chronos
from plfl.baselines.further.fracast import Fracast
from plfl.baselines.trees import Boosting
from plfl.config.study import Study
from plfl.experiments.baselines import evaluate
from tests.helpers import tiny
from tests.helpers.outside import dataset
from tests.helpers.refusals import naming

LEVELS = (0.1, 0.5, 0.9)


def at(data: Any, client: int, start: int, context: int) -> Any:
    """What is known of a client at the origin of a window."""
    end = start + data.look_back
    return data.load[max(data.bounds[client, 0], end - context) : end]


@pytest.mark.parametrize("horizons", [1, 3])
def test_fracast(horizons: int) -> None:
    package = pytest.importorskip("fracast")
    data = dataset(days=12, minutes=60, horizons=horizons, look_ahead=2)
    baseline = Fracast(trained_on_this_dataset=True, context=48)
    model = package.FracastModel.from_pretrained(weights="fp32")
    point = baseline.trained(data, Boosting()).predict
    of_levels = baseline.trained(data, Boosting(levels=LEVELS)).predict
    starts = data.starts(1, "test")
    for k in (0, len(starts) - 1):
        whole = model.forecast(at(data, 1, int(starts[k]), 48), horizon=1 + horizons)[1:]
        wanted = whole[:, [0, 4, 8]]
        np.testing.assert_allclose(of_levels(1, starts)[k], np.sort(wanted), rtol=1e-3)
        middle = point(1, starts)[k]
        np.testing.assert_allclose(middle, whole[:, 4].reshape(middle.shape), rtol=1e-3)


def save_bolt(folder: Path) -> None:
    from chronos.chronos_bolt import ChronosBoltModelForForecasting
    from transformers import T5Config

    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    config = T5Config(
        **sizes, num_decoder_layers=1, vocab_size=2, pad_token_id=0, decoder_start_token_id=0
    )
    config.architectures = ["ChronosBoltModelForForecasting"]
    config.chronos_pipeline_class = "ChronosBoltPipeline"
    config.chronos_config = {
        **{"context_length": 64, "prediction_length": 8, "use_reg_token": True},
        **{"input_patch_size": 8, "input_patch_stride": 8},
        "quantiles": [k / 10 for k in range(1, 10)],
    }
    ChronosBoltModelForForecasting(config).save_pretrained(folder)


def save_2(folder: Path) -> None:
    from chronos.chronos2.config import Chronos2CoreConfig
    from chronos.chronos2.model import Chronos2Model

    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    config = Chronos2CoreConfig(**sizes)
    config.architectures = ["Chronos2Model"]
    config.chronos_pipeline_class = "Chronos2Pipeline"
    config.chronos_config = {
        **{"context_length": 64, "output_patch_size": 8, "input_patch_size": 8},
        **{"input_patch_stride": 8, "use_reg_token": True, "use_arcsinh": True},
        **{
            "max_output_patches": 2,
            "quantiles": [k / 10 for k in range(1, 10)],
            "time_encoding_scale": 64,
        },
    }
    Chronos2Model(config).save_pretrained(folder)


@pytest.mark.parametrize("save", [save_bolt, save_2])
def test_chronos_with_the_classes_of_its_package(save: Any, tmp_path: Path) -> None:
    package = pytest.importorskip("chronos")
    torch.manual_seed(3)
    save(tmp_path)
    data = dataset(days=12, minutes=60, horizons=2)
    baseline = Chronos(folder=tmp_path, trained_on_this_dataset=False, context=64)
    predict = baseline.trained(data, Boosting(levels=LEVELS)).predict
    pipeline = package.BaseChronosPipeline.from_pretrained(tmp_path)
    starts = data.starts(0, "test")
    found = predict(0, starts)
    assert found.std() > 0
    for k in (0, len(starts) - 1):
        known = torch.tensor(at(data, 0, int(starts[k]), 64), dtype=torch.float32)
        quantiles, _ = pipeline.predict_quantiles(
            [known], prediction_length=data.look_ahead + 1, quantile_levels=list(LEVELS)
        )
        wanted = np.asarray(quantiles[0].detach(), float).reshape(-1, 3)[-2:]
        np.testing.assert_allclose(found[k], np.sort(wanted), rtol=1e-4)


def test_a_folder_without_weights_is_named(tmp_path: Path) -> None:
    data = dataset(days=12, minutes=60)
    predict = Chronos(folder=tmp_path, trained_on_this_dataset=False).fit(data)
    with naming(PlflError, tmp_path.name, "config.json"):
        predict(0, data.starts(0, "test"))


def test_a_study_has_to_say_whether_the_model_knows_its_data() -> None:
    with naming(PlflError, "trained_on_this_dataset"):
        Study.parse({"baselines": {"further": [{"name": "fracast"}]}}, "a test")


def test_every_row_says_whether_the_baseline_knew_the_data() -> None:
    pytest.importorskip("fracast")
    listed = [{"name": "fracast", "trained_on_this_dataset": True}]
    study = tiny.study(baselines={"trees": 5, "further": listed})
    boosting = Boosting.of(study.baselines)
    table = evaluate("XX", tiny.dataset(), boosting, further=study.baselines.further).scores
    seen = table.groupby("baseline")["trained_on_this_dataset"].all()
    assert seen[seen].index.tolist() == ["fracast"]
    assert np.isfinite(table.query("baseline == 'fracast' and client == 'a'")["mae"]).all()
