"""Which runs, in what order, how often, until how precise; cut anywhere, the same command goes on."""

from virtlab.campaign.interruption import Interruption
from virtlab.campaign.loop import Campaign, Ending
from virtlab.campaign.machine_lock import MachineLock
from virtlab.campaign.precision import Precision
from virtlab.campaign.progress import CampaignObserver
from virtlab.campaign.resume import open_dataset
from virtlab.campaign.run import refused, run_campaign, select_points
from virtlab.campaign.schedule import Schedule

__all__ = [
    "Campaign",
    "CampaignObserver",
    "Ending",
    "Interruption",
    "MachineLock",
    "Precision",
    "Schedule",
    "open_dataset",
    "refused",
    "run_campaign",
    "select_points",
]
