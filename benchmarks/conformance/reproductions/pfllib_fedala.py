# Which clients of PFLlib's FedALA learn W when one of two takes part; run in system/
from unittest.mock import MagicMock

from flcore.servers.serverala import FedALA

server = MagicMock(clients=[MagicMock(), MagicMock()])
server.selected_clients = server.clients[:1]
FedALA.send_models(server)
counts = [client.local_initialization.call_count for client in server.clients]
print(f"initialisations of the clients: {counts}; FedALA: [1, 0]")
