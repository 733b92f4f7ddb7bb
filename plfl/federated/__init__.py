"""The round: clients, server, and what crosses between them."""
