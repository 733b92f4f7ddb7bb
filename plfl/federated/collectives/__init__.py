"""The messages between a server and clients whose LightGBMs grow the same trees.

LightGBM's data-parallel learner (`tree_learner: data`) asks for two operations among its machines,
which may be functions of the caller (`LGBM_NetworkInitWithFunctions`). Each client is a thread with
a LightGBM of its own. The server adds the clients' histograms and picks the best of their splits.
The channel of the federation carries what it gets from each client and what it returns.

A message that cannot be completed, because a client is gone, is answered with zeros: LightGBM finds
no split in them and ends the tree, which the caller throws away.

`interface` calls LightGBM, `message_layout` says what its messages hold, which it does not promise,
and `self_test` whether they do in the installed version. `messages` packs them, `bounds` says what
they can be, and `server` combines them.
"""
