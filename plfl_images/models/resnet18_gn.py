"""ResNet-18 for images of 32 × 32 pixels, with group normalisation in place of batch normalisation.

Source: Kaiming He, Xiangyu Zhang, Shaoqing Ren and Jian Sun, "Deep Residual Learning for Image
Recognition", CVPR 2016, https://arxiv.org/abs/1512.03385; Yuxin Wu and Kaiming He, "Group
Normalization", ECCV 2018, https://arxiv.org/abs/1803.08494.

Parameters have the names that torchvision's `resnet18` gives them. As usual for small images, the
first convolution is 3 × 3 with stride 1, and no pooling follows it.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional

from plfl.layout import WindowShape
from plfl_images.models.layers import as_images, channels_of, projection

CHANNELS = (64, 128, 256, 512)
"""Channels of the four stages, of two blocks each."""


class ResNet18Block(nn.Module):
    """Two 3 × 3 convolutions with a shortcut."""

    def __init__(self, width: int, to: int, stride: int, norm: Callable[[int], nn.Module]):
        super().__init__()
        self.conv1 = nn.Conv2d(width, to, 3, stride, padding=1, bias=False)
        self.bn1 = norm(to)
        self.conv2 = nn.Conv2d(to, to, 3, padding=1, bias=False)
        self.bn2 = norm(to)
        self.downsample = (
            nn.Identity()
            if stride == 1 and width == to
            else nn.Sequential(nn.Conv2d(width, to, 1, stride, bias=False), norm(to))
        )

    def forward(self, x: Tensor) -> Tensor:
        """(B, to, height / stride, width / stride)."""
        hidden = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(hidden)) + self.downsample(x))


class ResNet18Net(nn.Module):
    """The module of `resnet18_gn`."""

    def __init__(self, shape: WindowShape, groups: Callable[[int], int], projected: int):
        super().__init__()

        def norm(channels: int) -> nn.Module:
            return nn.GroupNorm(groups(channels), channels)

        width = CHANNELS[0]
        self.conv1 = nn.Conv2d(channels_of(shape), width, 3, padding=1, bias=False)
        self.bn1 = norm(width)
        for i, stage_width in enumerate(CHANNELS):
            first = ResNet18Block(width, stage_width, 2 if i else 1, norm)
            stages = nn.Sequential(first, ResNet18Block(stage_width, stage_width, 1, norm))
            self.add_module(f"layer{i + 1}", stages)
            width = stage_width
        self.fc: nn.Module = nn.Linear(projected or width, shape.outputs)
        if projected:
            self.fc = nn.Sequential(*projection(width, projected), self.fc)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, sequence: Tensor, covariates: Tensor) -> Tensor:
        """Logits (B, classes)."""
        outputs: Tensor = self.fc(self._pool(sequence))
        return outputs

    def features(self, sequence: Tensor, layer: str = "penultimate") -> Tensor:
        """The inputs (B, W) of the last layer."""
        pooled = self._pool(sequence)
        hidden: Tensor = self.fc[:-1](pooled) if isinstance(self.fc, nn.Sequential) else pooled
        return hidden

    def _pool(self, sequence: Tensor) -> Tensor:
        """Features (B, 512) of the last block, averaged over the image."""
        x = functional.relu(self.bn1(self.conv1(as_images(sequence))))
        for i in range(len(CHANNELS)):
            x = self.get_submodule(f"layer{i + 1}")(x)
        pooled: Tensor = x.mean((2, 3))
        return pooled
