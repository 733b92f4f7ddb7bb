# What PFLlib's FedBABU fine-tunes after the last round; run in system/
from unittest.mock import MagicMock

from flcore.servers.serverbabu import FedBABU

server = MagicMock(global_rounds=1, eval_gap=9, rs_test_acc=[0], Budget=[])
server.configure_mock(dlg_eval=False, auto_break=False, num_new_clients=0)
server.clients = server.select_clients.return_value = [server.client]
FedBABU.train(server)
steps = ("send_models", "client.train", "aggregate_parameters", "client.fine_tune")
print(*(name for name, *_ in server.method_calls if name in steps))
print("the aggregate is not sent before fine_tune")
