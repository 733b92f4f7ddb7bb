"""FedADC with double momentum adds to FedADC a separate momentum for each client, which is reset in
every round. It smooths the client's gradients, while the server's momentum still gives all clients
a common direction.

Source: Emre Ozfatura, Kerem Ozfatura and Deniz Gündüz, "FedADC: Accelerated Federated Learning with
Drift Control", ISIT 2021, https://arxiv.org/abs/2012.09102, Algorithm 4.

client: m_i ← g in its first step, m_i ← φ m_i + (1 − φ) g in the others;  y ← y − η (m̄ + m_i)

The average m_i is SGD with momentum φ and dampening φ, which must therefore be the ClientOpt. The
hyperparameters are those of FedADC. The paper has β_l = β_g and takes the gradient before the step
along m̄, which are the defaults here; it gives no φ. With φ = 0 this is FedADC.
"""

from collections.abc import Iterator

from plfl.interfaces.method import Sizes
from plfl.optimizers.client import ClientOpt
from plfl.optimizers.client.sgdm import SgdMomentum
from plfl.optimizers.server import ServerOpt
from plfl_reproductions.methods.fedadc import FedADC


class FedADCDM(FedADC):
    """FedADC with momentum at the clients and at the server."""

    name = "fedadc_dm"
    label = "FedADC-DM"
    sends = Sizes("2 d_s")

    def reasons_against_optimizers(
        self, client_opt: ClientOpt, server_opt: ServerOpt
    ) -> Iterator[str]:
        match client_opt:
            case SgdMomentum(nesterov=False, momentum=m, dampening=d) if m == d:
                yield from super().reasons_against_optimizers(client_opt, server_opt)
            case _:
                yield (
                    "its clients average their gradients; use sgdm without nesterov, and with "
                    "hyperparameters.client_opt.sgdm.dampening equal to its momentum (φ)"
                )
