"""Flower as the transport between the server and its clients.

- `runtime`: Flower's commands
- `programs`: the changes to its private parts; `substitutes`: what takes their place
- `server_app`: the ServerApp, which runs the rounds
- `client_app`: the ClientApp, which relays each message to the worker of the building
- `results`: the result tables of a cell that was run with Flower
"""
