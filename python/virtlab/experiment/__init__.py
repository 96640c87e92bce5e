"""What a person asks for: the file, typed and checked, all mistakes at once.

>>> from virtlab.experiment import load_text
>>> experiment = load_text('''
... version: 1
... name: two-hosts
... hosts: 2
... topology: line
... link: {rate: 100 Mbit/s}
... factors: {size: [64 B ip_packet, 1500 B ip_packet]}
... roles:
...   probe: {workload: rtt, from: h1.g1, to: h2.g1, size: "${size}", count: 10, interval: 10 ms}
... ''')
>>> [dict(point.levels) for point in experiment.points()]
[{'size': '64 B ip_packet'}, {'size': '1500 B ip_packet'}]
"""

from virtlab.experiment.experiment import Claim, DesignPoint, Experiment, Repeat, Until
from virtlab.experiment.load import load, load_bytes, load_text
from virtlab.experiment.read.mistakes import FileMistakesError, Mistake
from virtlab.experiment.study import Study

__all__ = [
    "Claim", "DesignPoint", "Experiment", "FileMistakesError", "Mistake", "Repeat", "Study", "Until", "load", "load_bytes",
    "load_text",
]  # fmt: skip
