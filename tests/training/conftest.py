import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    """More of them only slow PyTorch down on models as small as these."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
