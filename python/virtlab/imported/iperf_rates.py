"""Units of rates as iperf 2 and iperf3 print, in bit/s: bits in powers of 1000, bytes (-f K, M, G, T) in powers of
1024.
"""

from __future__ import annotations

RATES = {
    "bits/sec": 1, "Kbits/sec": 10**3, "Mbits/sec": 10**6, "Gbits/sec": 10**9, "Tbits/sec": 10**12,
    "Bytes/sec": 8, "KBytes/sec": 8 * 2**10, "MBytes/sec": 8 * 2**20, "GBytes/sec": 8 * 2**30, "TBytes/sec": 8 * 2**40,
}  # fmt: skip
