"""FedADC with double momentum (Ozfatura et al. 2021, arXiv 2012.09102, Algorithm 4).

FedADC whose clients have a momentum of their own besides the server's, reset in every round:

client: m_i ← g in its first step, m_i ← φ m_i + (1 − φ) g in the others;  y ← y − η (m̄ + m_i)

That average is SGD with momentum φ and dampening φ, which therefore has to be the ClientOpt.
Parameters are FedADC's; the paper has β_l = β_g and takes gradients before following m̄, as is the
default. It gives no φ. With φ = 0 it is FedADC.
"""

from typing import TYPE_CHECKING

from plfl.clients.sgdm import SgdMomentum
from plfl.methods.fedadc import FedADC

if TYPE_CHECKING:
    from plfl.clients import ClientOpt
    from plfl.servers import ServerOpt


class FedADCDM(FedADC):
    """FedADC with the clients' momentum beside the server's."""

    name = "fedadc_dm"
    label = "FedADC-DM"

    def refuses(self, client_opt: "ClientOpt", server_opt: "ServerOpt") -> str | None:
        match client_opt:
            case SgdMomentum(nesterov=False, momentum=m, dampening=d) if m == d:
                return super().refuses(client_opt, server_opt)
        return (
            "its clients average their gradients; take sgdm without nesterov and with "
            "client_opt.sgdm.dampening equal to client_opt.sgdm.momentum (φ)"
        )
