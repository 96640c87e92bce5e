"""Where runs in virtual time are made: processes of this machine, or the workers of a Dask scheduler.

Everything in a run follows from its Plan, so who makes it and when does not matter: the dataset is the one that a
serial campaign makes, but for the instants at which its runs were made. Both kinds of pool take a `Task` and give a
future of its record.
"""

from virtlab.campaign.dispatch.local import LocalPool
from virtlab.campaign.dispatch.work import LostWorkerError, Pool, Task

__all__ = ["LocalPool", "LostWorkerError", "Pool", "Task"]
