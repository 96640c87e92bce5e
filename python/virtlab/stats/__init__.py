"""Arrays in, estimates with intervals out. Knows no topology, no file and no clock; randomness comes as a
seed.

>>> print(mean_interval([10.0, 11.0, 12.0], metric="rtt", unit="ns"))
11 ns (8.52 to 13.5 ns, 95 %, n = 3)
"""

from virtlab.stats.comparison import (
    Comparison,
    cliffs_delta,
    compare,
    equivalence_p,
    hedges_g,
    ratio_interval,
)
from virtlab.stats.contrasts import Contrast, contrast
from virtlab.stats.estimate import Estimate
from virtlab.stats.holm import holm
from virtlab.stats.means import bootstrap_interval, mean_interval, t_bounds
from virtlab.stats.proportions import proportion_interval
from virtlab.stats.quantiles import quantile_interval, samples_needed
from virtlab.stats.stopping import Look, StoppingRule, look_level, planned_sizes
from virtlab.stats.warmup import mser5

__all__ = [
    "Comparison", "Contrast", "Estimate", "Look", "StoppingRule",
    "bootstrap_interval", "cliffs_delta", "compare", "contrast", "equivalence_p", "hedges_g", "holm",
    "look_level", "mean_interval", "mser5", "planned_sizes", "proportion_interval", "quantile_interval",
    "ratio_interval", "samples_needed", "t_bounds",
]  # fmt: skip
