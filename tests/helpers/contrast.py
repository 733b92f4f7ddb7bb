"""Contrast of two colours, as WCAG 2.2 defines it."""

from matplotlib.colors import to_rgb
from matplotlib.typing import ColorType


def luminance(colour: ColorType) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: ColorType, other: ColorType) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)
