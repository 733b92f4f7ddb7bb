"""Types of the layers above, for annotations alone: no file of an interface imports these layers,
which import torch and pandas. Plug-ins annotate with them, too."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

Reasons = Iterator[str]
"""Why something is impossible; none if it is possible."""

if TYPE_CHECKING:
    from plfl.config.data import Data as Data
    from plfl.config.federation import FederationSettings as FederationSettings
    from plfl.config.windows import Windows as Windows
    from plfl.data.dataset import Dataset as Dataset
    from plfl.data.dataset import Split as Split
    from plfl.data.examples import Examples as Examples
    from plfl.federated.client_data import ClientData as ClientData
    from plfl.federated.federation import Federation as Federation
    from plfl.federated.instructions import TrainInstructions as TrainInstructions
    from plfl.federated.instructions import TrainResult as TrainResult
    from plfl.federated.session import Session as Session
    from plfl.federated.tree_grower import TreeGrower as TreeGrower
    from plfl.federated.tree_growth import RootCounts as RootCounts
    from plfl.interfaces.program import ProgramPart as ProgramPart
    from plfl.interfaces.program import ProgramParts as ProgramParts
    from plfl.networks.network import Network as Network
    from plfl.study import Study as Study
    from plfl.tasks.losses import Loss as Loss
else:
    Data = FederationSettings = Windows = Dataset = Split = Any
    Examples = Study = Any
    ProgramPart = ProgramParts = Network = Loss = Any
    ClientData = TreeGrower = Federation = Session = TrainInstructions = TrainResult = Any
    RootCounts = Any
