"""Models of images: sizes, names of parameters, and what they read."""

from typing import Any

import pytest
import torch
from torch.nn import functional

from plfl.layout import WindowShape
from plfl_images.models import Cnn, Cnn44, ImageModel, ResNet18Gn
from plfl_images.models.cnn import HalvingLayer
from plfl_images.models.layers import as_images

DIGITS = WindowShape(8, 8, 0, 10)
CIFAR10 = WindowShape(96, 32, 0, 10)
CIFAR100 = WindowShape(96, 32, 0, 100)


def count(model: ImageModel, shape: WindowShape) -> int:
    return sum(p.numel() for p in model.build(shape).parameters())


@pytest.mark.parametrize(
    ("model", "shape", "parameters"),
    [
        (Cnn(), DIGITS, 3_658),
        (Cnn44(), CIFAR10, 1_156_202),
        (ResNet18Gn(), CIFAR100, 11_220_132),
        (ResNet18Gn(groups="size"), CIFAR10, 11_173_962),
        (ResNet18Gn(projection=256), CIFAR100, 11_588_516),
    ],
)
def test_numbers_of_parameters(model: ImageModel, shape: WindowShape, parameters: int) -> None:
    with torch.device("meta"):
        assert count(model, shape) == parameters


@pytest.mark.parametrize(("projection", "width"), [(0, 512), (256, 256)])
def test_the_last_layer_of_resnet_reads_its_features(projection: int, width: int) -> None:
    with torch.device("meta"):
        module: Any = ResNet18Gn(projection=projection).build(CIFAR10)
        images = torch.empty(2, 32, 96)
        read: list[torch.Tensor] = []
        last = module.fc[-1] if projection else module.fc
        last.register_forward_pre_hook(lambda _, given: read.append(given[0]))
        module(images, torch.empty(2, 0))
        assert module.features(images).shape == read[0].shape == (2, width)


def test_rows_of_a_window_are_rows_of_an_image() -> None:
    images = torch.rand(2, 3, 4, 4)
    sequence = images.transpose(1, 2).flatten(2)
    assert torch.equal(as_images(sequence), images)


def test_the_small_network_by_hand() -> None:
    torch.manual_seed(0)
    module = Cnn().build(DIGITS)
    images = torch.rand(5, 1, 8, 8)
    p = dict(module.named_parameters())
    x = images
    for layer in ("convolutions.0", "convolutions.3"):
        x = functional.conv2d(x, p[f"{layer}.weight"], p[f"{layer}.bias"], padding=1)
        x = functional.max_pool2d(functional.relu(x), 2)
    x = functional.linear(x.flatten(1), p["linear.0.weight"], p["linear.0.bias"])
    logits = functional.linear(functional.relu(x), p["head.weight"], p["head.bias"])
    assert torch.allclose(module(images[:, 0], torch.empty(5, 0)), logits, atol=1e-6)


def test_pooling_is_the_same_with_and_without_gradients() -> None:
    images = torch.randn(2, 3, 8, 8).clamp(min=-0.5)
    images[0, 0, 1, 2] = torch.nan
    expected = functional.max_pool2d(images, 2)
    assert torch.equal(HalvingLayer()(images).nan_to_num(), expected.nan_to_num())
    with torch.inference_mode():
        torch.testing.assert_close(HalvingLayer()(images), expected, rtol=0, atol=0, equal_nan=True)


def test_resnet_has_the_names_and_sizes_of_torchvision() -> None:
    with torch.device("meta"):
        names = {n: tuple(p.shape) for n, p in ResNet18Gn().build(CIFAR10).named_parameters()}
    assert len(names) == 62
    assert list(names)[:3] == ["conv1.weight", "bn1.weight", "bn1.bias"]
    assert names["layer1.1.conv2.weight"] == (64, 64, 3, 3)
    assert names["layer2.0.downsample.0.weight"] == (128, 64, 1, 1)
    assert names["layer4.0.downsample.1.bias"] == (512,)
    assert names["fc.weight"] == (10, 512)
    assert not any(name.startswith("layer1.0.downsample") for name in names)


@pytest.mark.parametrize("groups", ["number", "size"])
def test_groups_of_channels(groups: str) -> None:
    module = ResNet18Gn(group=32, groups=groups).build(CIFAR10)
    norms = [m for m in module.modules() if isinstance(m, torch.nn.GroupNorm)]
    if groups == "number":
        assert {m.num_groups for m in norms} == {32}
    else:
        assert {m.num_channels // m.num_groups for m in norms} == {32}
    assert module(torch.rand(1, 32, 96), torch.empty(1, 0)).shape == (1, 10)


@pytest.mark.parametrize("shape", [WindowShape(9, 12, 0, 10), WindowShape(6, 6, 0, 10)])
def test_windows_that_are_no_images(shape: WindowShape) -> None:
    (problem,) = Cnn().problems(shape)
    assert "multiples of 4" in str(problem)
