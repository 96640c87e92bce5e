"""Which runs, in what order, how often, until how precise; cut off anywhere, the same command resumes."""

from virtlab.campaign.interruption import Interruption
from virtlab.campaign.loop.campaign import Campaign, Ending
from virtlab.campaign.loop.precision import Precision
from virtlab.campaign.loop.resumption import open_dataset
from virtlab.campaign.loop.schedule import Schedule
from virtlab.campaign.machine_lock import MachineLock
from virtlab.campaign.played import play
from virtlab.campaign.progress import CampaignObserver
from virtlab.campaign.run import refused, run_campaign, select_points

__all__ = [
    "Campaign",
    "CampaignObserver",
    "Ending",
    "Interruption",
    "MachineLock",
    "Precision",
    "Schedule",
    "open_dataset",
    "play",
    "refused",
    "run_campaign",
    "select_points",
]
