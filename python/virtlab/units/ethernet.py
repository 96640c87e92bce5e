"""Octets of an Ethernet frame around the packet that it carries (IEEE 802.3, 3.1.1 and 4.4.2)."""

from __future__ import annotations

HEADER_BYTES = 14  # destination, source, type
FCS_BYTES = 4
HEADER_AND_FCS_BYTES = HEADER_BYTES + FCS_BYTES
FRAME_LEAST_BYTES = 64  # header to FCS: shorter packets are padded
BETWEEN_BYTES = 20  # on the wire beside the frame: preamble, start delimiter and the gap to the next
AROUND_PACKET_BYTES = HEADER_AND_FCS_BYTES + BETWEEN_BYTES  # on the wire, around an IP packet
UNCOUNTED_BYTES = (
    FCS_BYTES + BETWEEN_BYTES
)  # on the wire, of which the kernel's queue disciplines know nothing
WIRE_LEAST_BYTES = FRAME_LEAST_BYTES + BETWEEN_BYTES  # that any frame takes of the wire
MTU_BYTES = 1500  # of an interface where none was set: the largest packet of a frame without tags
FULL_FRAME_WIRE_BYTES = MTU_BYTES + AROUND_PACKET_BYTES
