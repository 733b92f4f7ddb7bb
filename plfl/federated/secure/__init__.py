"""Secure aggregation: the server learns the sum of the clients' numbers, and no single ones.

Each pair of neighbouring clients agrees on a key, which the server does not know. Both expand it to
numbers that look random; one adds them to its own, the other subtracts them, all modulo a power of
two. So the masks cancel in the sum, to the bit. If clients may drop out after they have agreed on
keys, each also adds a mask of its own, and shares both keys among its neighbours: of each client
they reveal the one that the sum still contains, and never both.

Sources: Keith Bonawitz, Vladimir Ivanov, Ben Kreuter, Antonio Marcedone, H. Brendan McMahan, Sarvar
Patel, Daniel Ramage, Aaron Segal and Karn Seth, "Practical Secure Aggregation for
Privacy-Preserving Machine Learning", CCS 2017, https://eprint.iacr.org/2017/281; few neighbours
instead of all: James Bell, Kallista Bonawitz, Adrià Gascón, Tancrède Lepoint and Mariana Raykova,
"Secure Single-Server Aggregation with (Poly)Logarithmic Overhead", CCS 2020,
https://eprint.iacr.org/2020/704.

- `keys`: keys of clients, agreement of two, encryption of shares
- `shares`: secrets that some of many shares recover (Shamir)
- `neighbours`: who shares masks with whom, and how safe that is
- `masks`: numbers of a few bits, and what hides them

What it protects, and against whom, is in docs/privacy.md.
"""

from plfl.base.extras import require


def check_installed() -> None:
    """Check that the primitives are installed.

    Raises:
        PlflError: they are not; with the command that installs them.
    """
    require("secure", "channel.secure")
