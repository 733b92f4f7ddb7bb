"""Foundation models against their packages, called as their authors do."""

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from plfl.base.errors import PlflError
from plfl.baselines.further.chronos import Chronos
from plfl.baselines.further.fracast import Fracast
from plfl.baselines.further.timesfm import TimesFM
from plfl.baselines.further.tirex import TiRex
from plfl.baselines.trees import TreeSettings
from plfl.experiments.baselines import evaluate
from plfl.study import Study
from tests.helpers import tiny
from tests.helpers.outside import dataset
from tests.helpers.refusals import naming

NINE = [k / 10 for k in range(1, 10)]
"""The levels of all of them."""
OTHER = (0.05, 0.1, 0.55)


def save_fracast(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Its package has the weights."""
    package = pytest.importorskip("fracast")
    model = package.FracastModel.from_pretrained(weights="fp32")
    return lambda known, steps: model.forecast(known, horizon=steps)


def save_chronos(kind: str, folder: Path) -> Callable[..., Any]:
    package = pytest.importorskip("chronos")
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    settings: dict[str, Any] = {"context_length": 64, "use_reg_token": True}
    settings |= {"input_patch_size": 8, "input_patch_stride": 8, "quantiles": NINE}
    if kind == "Bolt":
        from chronos.chronos_bolt import ChronosBoltModelForForecasting as Model
        from transformers import T5Config

        tokens = {"vocab_size": 2, "pad_token_id": 0, "decoder_start_token_id": 0}
        config = T5Config(**sizes, **tokens, num_decoder_layers=1)
        settings["prediction_length"] = 8
    else:
        from chronos.chronos2.config import Chronos2CoreConfig
        from chronos.chronos2.model import Chronos2Model as Model

        config = Chronos2CoreConfig(**sizes)
        settings |= {"output_patch_size": 8, "max_output_patches": 2, "time_encoding_scale": 64}
        settings["use_arcsinh"] = True
    config.architectures = [Model.__name__]
    config.chronos_pipeline_class = f"Chronos{kind}Pipeline"
    config.chronos_config = settings
    Model(config).save_pretrained(folder)
    pipeline = package.BaseChronosPipeline.from_pretrained(folder)

    def quantiles(known: Any, steps: int) -> Any:
        given = [torch.tensor(known, dtype=torch.float32)]
        found = pipeline.predict_quantiles(given, prediction_length=steps, quantile_levels=NINE)
        return np.asarray(found[0][0].detach(), float).reshape(-1, 9)

    return quantiles


def save_bolt(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    return save_chronos("Bolt", folder)


def save_2(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    return save_chronos("2", folder)


def save_timesfm_3(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    package = pytest.importorskip("timesfm3", reason="needs the package timesfm")
    sizes = {"model_dims": 16, "hidden_dims": 16, "num_heads": 2}
    norms = dict.fromkeys(("attention_norm", "feedforward_norm", "qk_norm"), "rms")
    flags = {"use_rope_seq": True, "use_rope_var": True, "use_bias": False, "deterministic": True}
    blocks = package.TransformerConfig(**sizes, **norms, **flags, ff_activation="relu")
    layers = asdict(package.StackedTransformersConfig(1, blocks))
    inner = {"hidden_dims": 16, "output_dims": 16, "use_bias": False, "activation": "relu"}
    kept = package.TimesFM3Torch(residual_block_config=inner, transformer_config=layers)
    kept.save_pretrained(folder)
    forecaster = package.TimesFM3Forecaster.from_pretrained(str(folder))
    return lambda known, steps: forecaster.predict(known, steps, return_quantiles=True).quantiles


def save_timesfm_2p5(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    package = pytest.importorskip("timesfm")
    models = pytest.importorskip("timesfm.timesfm_2p5.timesfm_2p5_torch")
    kind = models.TimesFM_2p5_200M_torch_module
    small: dict[str, Any] = {"tokenizer": replace(kind.config.tokenizer, output_dims=16)}
    layers = kind.config.stacked_transformers
    block = replace(layers.transformer, model_dims=16, hidden_dims=16, num_heads=2)
    small["stacked_transformers"] = replace(layers, num_layers=1, transformer=block)
    for name in ("output_projection_point", "output_projection_quantiles"):
        small[name] = replace(getattr(kind.config, name), input_dims=16)
    monkeypatch.setattr(kind, "config", replace(kind.config, **small))
    model = package.TimesFM_2p5_200M_torch(torch_compile=False)
    for values in model.model.parameters():
        torch.nn.init.normal_(values, std=0.3)  # some are left as memory happens to be
    model.save_pretrained(folder)
    # As the card of its weights has it, without what keeps quantiles in order and loads positive.
    flags = {"normalize_inputs": True, "use_continuous_quantile_head": True}
    model.compile(package.ForecastConfig(max_context=64, max_horizon=128, **flags))
    return lambda known, steps: model.forecast(steps, [known])[1][0, :, 1:]


def save_tirex(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    package = pytest.importorskip("tirex", reason="needs the package tirex-ts")
    sizes = {
        "input_patch_size": 8,
        "output_patch_size": 8,
        "quantiles": NINE,
        "block_kwargs": {"embedding_dim": 16, "num_heads": 2, "num_blocks": 1},
        "input_ff_dim": 16,
    }
    given = {"model_config": sizes, "train_ctx_len": 64}
    model = package.TiRexZero("torch", **given)
    for values in model.parameters():
        torch.nn.init.normal_(values, std=0.3)
    state = {"hyper_parameters": given, "state_dict": model.state_dict()}
    torch.save(state, folder / "model.ckpt")
    return lambda known, steps: model.forecast(known, prediction_length=steps)[0][0].numpy()


@pytest.mark.parametrize(
    ("kind", "save", "levels"),
    [
        # Chronos has a rule of its own for other levels.
        (Chronos, save_bolt, (0.1, 0.5, 0.9)),
        (Chronos, save_2, (0.1, 0.5, 0.9)),
        (Fracast, save_fracast, (0.05, 0.1, 0.9)),
        (TimesFM, save_timesfm_2p5, OTHER),
        (TimesFM, save_timesfm_3, OTHER),
        (TiRex, save_tirex, OTHER),
    ],
)
def test_forecasts_are_those_of_the_package(kind, save, levels, tmp_path, monkeypatch):
    torch.manual_seed(3)
    as_its_authors = save(tmp_path, monkeypatch)
    data = dataset(days=12, minutes=60, horizons=2)
    data.load[data.bounds[0, 2] - 45] = np.nan  # read by the first window of the test set
    folder = {} if kind is Fracast else {"folder": tmp_path}
    baseline = kind(**folder, trained_on_this_dataset=False, context=64)
    predict = baseline.trained(data, TreeSettings(levels=levels)).predict
    starts = data.starts(0, "test")
    found, median = predict(0, starts), baseline.trained(data, TreeSettings()).predict(0, starts)
    assert found.std() > 0
    for k in (0, len(starts) - 1):
        end = int(starts[k]) + data.look_back
        known = data.load[max(data.bounds[0, 0], end - 64) : end]
        assert np.isnan(known).any() == (k == 0)
        quantiles = as_its_authors(known, data.look_ahead + 1)[-2:]
        wanted = [np.interp(levels, NINE, row) for row in quantiles]
        np.testing.assert_allclose(found[k], np.sort(wanted), rtol=1e-3)
        np.testing.assert_allclose(median[k], quantiles[:, 4], rtol=1e-3)


@pytest.mark.parametrize(
    ("kind", "file"),
    [(Chronos, "config.json"), (TimesFM, "model.safetensors"), (TiRex, "model.ckpt")],
)
def test_a_folder_without_weights_is_named(kind: Any, file: str, tmp_path: Path) -> None:
    data = dataset(days=12, minutes=60)
    predict = kind(folder=tmp_path, trained_on_this_dataset=False).fit(data)
    with naming(PlflError, tmp_path.name, file):
        predict(0, data.starts(0, "test"))


def test_a_study_has_to_say_whether_the_model_knows_its_data() -> None:
    with naming(PlflError, "trained_on_this_dataset"):
        Study.parse({"baselines": {"further": [{"name": "fracast"}]}}, "a test")


def test_every_row_says_whether_the_baseline_knew_the_data() -> None:
    pytest.importorskip("fracast")
    listed = [{"name": "fracast", "trained_on_this_dataset": True}]
    study = tiny.study(baselines={"trees": 5, "further": listed})
    boosting = TreeSettings.of(study.baselines)
    table = evaluate("XX", tiny.dataset(), boosting, further=study.baselines.further).scores
    seen = table.groupby("baseline")["trained_on_this_dataset"].all()
    assert seen[seen].index.tolist() == ["fracast"]
    assert np.isfinite(table.query("baseline == 'fracast' and client == 'a'")["mae"]).all()
