"""The same federation among real machines, with Flower.

Server and client run the same method, step by step, and meet in the channel: what one side sends,
the other receives (`sides`). Nothing here says how anything is updated.

- `wire`: messages as bytes
- `sides`: the two ends of the channel, and what each side knows of the other
- `client`: one building; its data, its model and its state stay in its folder
- `server`: the rounds, over any way of exchanging messages
- `worker`, `relay`, `server_app`: these two as processes, with Flower between them
- `flower`: what depends on Flower's private parts
- `launch`: a whole federation on one machine, up and down
"""
