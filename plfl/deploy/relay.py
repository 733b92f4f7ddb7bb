"""The Flower ClientApp: a message in, to the building's worker, its answer out.

Flower starts a process for every message, so this one imports hardly more than Flower itself and
holds nothing: whatever becomes of it, the worker's folder is the worker's alone.
"""

from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from plfl.deploy.sockets import ask

RECORD, FIELD = "plfl", "message"

app = ClientApp()


@app.train()
@app.query()
def carry(message: Message, context: Context) -> Message:
    """Let the worker answer."""
    data = message_in(message)
    answer = ask(Path(str(context.node_config["folder"])), data)
    return Message(RecordDict({RECORD: ConfigRecord({FIELD: answer})}), reply_to=message)


def message_in(message: Message) -> bytes:
    """What plfl put into a message of Flower's."""
    data = message.content.config_records[RECORD][FIELD]
    if not isinstance(data, bytes):
        raise TypeError(f"{RECORD}.{FIELD} holds no bytes but {type(data).__name__}")
    return data
