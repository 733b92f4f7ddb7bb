"""Gradient-boosted trees, as a row of numbers: what each node compares, and what each leaf adds.

The trees of the group `body` come first, and those of `head` are added to them: with P2, clients
share the former and grow the latter alone. The method `boosting` grows one in each round; until
then a tree adds 0.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn

from plfl.base.errors import Problem
from plfl.interfaces.model import Model
from plfl.layout import GROUPS, WindowShape

NODE = ("feature", "threshold", "left", "right")
"""Of each node: the number of the input that it compares, the largest value that goes to the left,
and where either side leads to, a node or, as −1 − its number, a leaf."""


class Trees(Model):
    """Gradient-boosted trees on the sequence and the covariates, for each output."""

    name = "trees"
    label = "Trees"
    grows_trees = True
    only_method = "boosting"
    only_target = "change"
    head_patterns = ("head.*",)

    trees: int = Field(60, ge=1)
    """Trees of the body."""
    own_trees: int = Field(20, ge=1)
    """Trees of the head."""
    leaves: int = Field(15, ge=2, le=1000)
    """Most leaves of a tree."""

    @property
    def sizes(self) -> dict[str, int]:
        """Trees of each group."""
        return dict(zip(GROUPS, (self.trees, self.own_trees), strict=True))

    def build(self, shape: WindowShape) -> nn.Module:
        return TreeGroups(shape.outputs, self.sizes, self.leaves)

    def problems(self, shape: WindowShape) -> list[Problem]:
        return []  # windows of any shape will do

    def operations(self, shape: WindowShape) -> int:
        return shape.outputs * sum(self.sizes.values()) * self.leaves


class TreeGroups(nn.Module):
    """The trees of all groups."""

    def __init__(self, outputs: int, sizes: dict[str, int], leaves: int):
        super().__init__()
        for group, trees in sizes.items():
            self.add_module(group, Group(outputs, trees, leaves))

    def forward(self, sequence: Tensor, covariates: Tensor) -> Tensor:
        x = torch.cat([sequence.flatten(1), covariates], 1)
        total = torch.stack([group(x) for group in self.children()]).sum(0)
        return total[:, 0] if total.shape[1] == 1 else total


class Group(nn.Module):
    """Trees that are added up, at first without a split."""

    def __init__(self, outputs: int, trees: int, leaves: int):
        super().__init__()
        for name in NODE:
            start = torch.full((outputs, trees, leaves - 1), -1.0 if name in NODE[2:] else 0.0)
            self.register_parameter(name, nn.Parameter(start))
        self.value = nn.Parameter(torch.zeros(outputs, trees, leaves))

    def forward(self, x: Tensor) -> Tensor:
        """The sums (B, O) for inputs (B, K)."""
        nodes = [getattr(self, name).flatten(0, 1) for name in NODE]
        leaves = leaves_of(nodes, x)
        values = look_up(self.value.flatten(0, 1), leaves)
        return values.reshape(x.shape[0], *self.value.shape[:2]).sum(2)


def leaves_of(nodes: list[Tensor], x: Tensor) -> Tensor:
    """The leaves (B, M) to which inputs (B, K) come in trees with `NODE`, each (M, L − 1). As in
    LightGBM's trees, a node leads to later ones only."""
    feature, threshold, left_child, right = nodes
    node_reached = torch.zeros_like(left_child[:, 0]).expand(x.shape[0], -1)
    # Taken apart once, and not node by node: few operators make a short program (`plfl export`).
    parts = (feature.long().unbind(1), threshold.unbind(1), left_child.unbind(1), right.unbind(1))
    for node, (features, thresholds, lefts, rights) in enumerate(zip(*parts, strict=True)):
        child = torch.where(x.index_select(1, features) <= thresholds, lefts, rights)
        node_reached = torch.where(node_reached == node, child, node_reached)
    return (-1 - node_reached).long()


def look_up(table: Tensor, places: Tensor) -> Tensor:
    """The entries (B, M) of a table (M, L) at places (B, M)."""
    rows = torch.arange(table.shape[0], device=table.device) * table.shape[1]
    return table.flatten()[rows + places]
