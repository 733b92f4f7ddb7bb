"""What clients train on, whether series or images."""

from plfl.data.dataset import Dataset
from plfl.data.images.dataset import ImageDataset

Examples = Dataset | ImageDataset
"""The data of a federation. Engines and clients use what both have: names of clients, rows of
features, context and targets, the start rows of a client's windows, and their shape."""
