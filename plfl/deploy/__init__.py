"""Runs a cell of a study as a federation of separate processes or hosts, connected by Flower.

Server and client run the same method, step by step, and exchange data only through the channel:
what one endpoint sends, the other receives. No update rule is implemented here.

- `protocol`: the messages, and what server and client do with them, over any transport
- `flower`: Flower's commands; `server_app` and `client_app`: the two ends of Flower
- `host`: processes, a socket and private files of one machine; `keys`: who is who
- `folders`: the folders of a deployed cell, and the names of the files in the server's folder
- `server_host`: the server's SuperLink and ServerApp: started, watched
- `gate`: which requests of other machines reach the SuperLink, and how large they are
- `client_host`: the long-lived process of one building, and its SuperNode
- `local`: a complete federation on this machine, and its comparison with the simulator
- `forecasts`: a building's forecasts for programs of its machine
"""
