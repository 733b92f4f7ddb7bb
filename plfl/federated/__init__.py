"""The round: clients, server, and the messages between them."""
