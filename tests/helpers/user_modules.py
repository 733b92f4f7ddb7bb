"""Forecasters as their users write them, without a thought of plfl."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class LSTMForecaster(nn.Module):
    """Two layers with dropout between them, an output (B, 1)."""

    def __init__(
        self,
        input_size: int = 1,
        hidden_size: int = 6,
        num_layers: int = 2,
        output_size: int = 1,
        dropout: float = 0.2,
    ):
        super().__init__()
        self.lstm = nn.LSTM(input_size, hidden_size, num_layers, batch_first=True, dropout=dropout)
        self.fc = nn.Linear(hidden_size, output_size)

    def forward(self, x: Tensor) -> Tensor:
        out, _ = self.lstm(x)
        forecast: Tensor = self.fc(out[:, -1, :])
        return forecast


class GRUNet(nn.Module):
    """Arguments without defaults, and a hidden state of zeros."""

    def __init__(self, input_dim: int, hidden_dim: int, output_dim: int, n_layers: int):
        super().__init__()
        self.hidden_dim, self.n_layers = hidden_dim, n_layers
        self.gru = nn.GRU(input_dim, hidden_dim, n_layers, batch_first=True)
        self.fc = nn.Linear(hidden_dim, output_dim)

    def forward(self, x: Tensor) -> Tensor:
        h0 = torch.zeros(self.n_layers, x.size(0), self.hidden_dim)
        out, _ = self.gru(x, h0)
        forecast: Tensor = self.fc(torch.relu(out[:, -1]))
        return forecast


class CausalNet(nn.Module):
    """Causal convolutions with BatchNorm and Dropout, and a second argument."""

    def __init__(self, in_channels: int, channels: int = 6, horizon: int = 1):
        super().__init__()
        self.first = nn.Conv1d(in_channels, channels, 3)
        self.second = nn.Conv1d(channels, channels, 3, dilation=2)
        self.norm = nn.BatchNorm1d(channels)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(channels, horizon)

    def forward(self, x: Tensor, covariates: Tensor) -> Tensor:
        x = functional.relu(self.norm(self.first(functional.pad(x.transpose(1, 2), (2, 0)))))
        x = functional.relu(self.second(functional.pad(self.drop(x), (4, 0))))
        forecast: Tensor = self.out(self.drop(x)[:, :, -1])
        return forecast.squeeze(1)


class TransformerNet(nn.Module):
    """A layer with dropout, and encodings of positions, a buffer that never changes."""

    pe: Tensor

    def __init__(self, n_features: int, seq_len: int, d_model: int = 8, nhead: int = 2):
        super().__init__()
        self.embed = nn.Linear(n_features, d_model)
        self.register_buffer("pe", torch.sin(torch.arange(seq_len * d_model)).view(1, seq_len, -1))
        self.layer = nn.TransformerEncoderLayer(d_model, nhead, 12, dropout=0.1, batch_first=True)
        self.head = nn.Linear(d_model, 1)

    def forward(self, src: Tensor, mask: Tensor | None = None) -> Tensor:
        encoded = self.layer(self.embed(src) + self.pe[:, : src.size(1)], mask)
        forecast: Tensor = self.head(encoded[:, -1])
        return forecast


class NormedNet(nn.Module):
    """BatchNorm with a mean of all minibatches so far, which counts them."""

    def __init__(self, seq_len: int, num_features: int, hidden: int = 6, pred_len: int = 1):
        super().__init__()
        self.net = nn.Sequential(
            nn.Flatten(),
            nn.Linear(seq_len * num_features, hidden),
            nn.BatchNorm1d(hidden, momentum=None),
            nn.ReLU(),
            nn.Linear(hidden, pred_len),
        )

    def forward(self, x: Tensor) -> Tensor:
        forecast: Tensor = self.net(x)
        return forecast


class BranchingNet(nn.Module):
    """Control flow that depends on values, which PyTorch cannot trace, and noise in training."""

    def __init__(self, inputs: int, look_back: int):
        super().__init__()
        self.read = nn.Linear(inputs * look_back, 5)
        self.out = nn.Linear(5, 1)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.read(x.flatten(1))
        if self.training:
            hidden = hidden + 0.1 * torch.randn_like(hidden)
        forecasts: Tensor = self.out(torch.relu(hidden))
        if bool((self.out.weight > 100).any()):
            forecasts = forecasts.clamp(-100, 100)
        return forecasts[:, 0]
