"""The paper's forecaster as one `nn.Module` of PyTorch's own layers, the engines' oracle."""

from collections.abc import Sequence

from torch import Tensor, nn


class Module(nn.Module):
    """The paper's forecaster, built from PyTorch's own layers."""

    def __init__(
        self,
        inputs: int,
        look_back: int,
        hidden: int,
        mlp: Sequence[int],
        absolute: bool,
        outputs: int = 1,
    ):
        """Build the layers; the sizes are those of a `LstmMlpNetwork`."""
        super().__init__()
        self.absolute = absolute
        self.lstm = nn.LSTM(inputs, hidden, batch_first=True)
        layers: list[nn.Module] = []
        fan_in = look_back * hidden
        for width in mlp:
            layers += [nn.Linear(fan_in, width), nn.PReLU(width)]
            fan_in = width
        self.mlp = nn.Sequential(*layers, nn.Linear(fan_in, outputs))

    def forward(self, sequence: Tensor, covariates: Tensor | None = None) -> Tensor:
        """Forecasts (B,), or (B, O), of windows (B, T, F); the paper's have no covariates."""
        out: Tensor = self.mlp(self.features(sequence, "states")).squeeze(1)
        return out.abs() if self.absolute else out

    def features(self, x: Tensor, which: str) -> Tensor:
        """Hidden states (`states`) or the input of the last linear layer (`penultimate`)."""
        states: Tensor = self.lstm(x)[0].flatten(1)
        return states if which == "states" else self.mlp[:-1](states)
