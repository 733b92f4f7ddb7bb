"""The Flower ClientApp: relays each message to the worker of the building, and its answer back.

Flower starts a process for every message. To start fast, this module imports little more than
Flower. The process has no state: only the worker accesses the folder of the client.
"""

from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from plfl.deploy.host import ask

RECORD, FIELD = "plfl", "message"
"""The record and the field of a Flower message that contain the bytes of a plfl message."""

app = ClientApp()


@app.train()
@app.query()
def carry(message: Message, context: Context) -> Message:
    """Relay a message to the worker and return its answer."""
    data = message_in(message)
    answer = ask(Path(str(context.node_config["folder"])), data)
    return Message(RecordDict({RECORD: ConfigRecord({FIELD: answer})}), reply_to=message)


def message_in(message: Message) -> bytes:
    """The bytes of plfl in a message of Flower. They are empty, and not a valid message, if it has
    none."""
    record = message.content.config_records.get(RECORD)
    data = None if record is None else record.get(FIELD)
    return data if isinstance(data, bytes) else b""
