"""How many of one unit make another: whole numbers, so that what is exact stays exact."""

from __future__ import annotations

BITS_PER_BYTE = 8
NS_PER_US = 10**3
NS_PER_MS = 10**6
NS_PER_S = 10**9
