# How often a client of PFLlib's Per-FedAvg trains in one round; run in system/
from unittest.mock import MagicMock

from flcore.servers.serverperavg import PerAvg

server = MagicMock(global_rounds=1, eval_gap=9, rs_test_acc=[0], Budget=[])
server.configure_mock(dlg_eval=False, auto_break=False, num_new_clients=0)
server.select_clients.return_value = [server.client]
PerAvg.train(server)
print(f"{server.client.train.call_count} trainings in 2 rounds; Per-FedAvg has 2")
