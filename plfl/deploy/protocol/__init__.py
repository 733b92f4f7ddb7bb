"""The messages between server and clients, and what each side does with them.

Nothing here depends on how the messages are transported.

- `endpoints`: the two ends of the channel, and messages as bytes
- `agreement`: what server and clients must have in common
- `answers`: the checks that an answer must pass before the server uses any part of it
- `membership`: the clients that have joined
- `server`: the rounds
- `client`: the answers of one building
- `rounds`: how long a round waits and for how many clients, and who took part in it
"""
