"""The tongue of the agent, typed: frames in, records out; no I/O."""

from virtlab.agents.conversation import STOPS, Block, Breach, Conversation, Data, Log, Message, Notice, Reply
from virtlab.agents.samples import decode_samples

__all__ = [
    "STOPS",
    "Block",
    "Breach",
    "Conversation",
    "Data",
    "Log",
    "Message",
    "Notice",
    "Reply",
    "decode_samples",
]
