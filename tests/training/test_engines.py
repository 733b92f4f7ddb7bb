"""Which engine trains, and what an engine says that it cannot do."""

from plfl.base.errors import ConfigError
from plfl.config.sections import Compute
from plfl.models.gru import Gru
from plfl.models.lstm_mlp import LstmMlp
from plfl.training.engines import choose, make_engine
from plfl.training.stacked import Stacked
from tests.helpers.refusals import naming
from tests.training.test_stacked import SHAPE, with_covariates


def test_a_machine_without_a_compiler_is_told_once_and_trains(caplog, monkeypatch):
    monkeypatch.setattr("plfl.training.engines.unavailable_reason", lambda: "no C++ compiler")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert choose(Compute(), LstmMlp().kernel_form) == ("stacked", "cpu")
    (line,) = caplog.messages
    assert all(word in line for word in ("stacked", "fused", "no C++ compiler"))
    with naming(ConfigError, "'fused'"):
        choose(Compute(engine="fused"), LstmMlp().kernel_form)


def test_the_fused_engine_leaves_models_that_it_does_not_know(caplog):
    network, data = Gru().network(SHAPE), with_covariates()
    with caplog.at_level("INFO"):
        assert isinstance(make_engine(Compute(device="cpu"), network, data), Stacked)
    assert "fused" in caplog.text
    with naming(ConfigError, "'fused'"):
        make_engine(Compute(device="cpu", engine="fused"), network, data)
