"""The laboratory machine: a whole experiment inside one virtual machine with a distribution's kernel.

Guests are namespaces there, links netem or token buckets, queue disciplines the kernel's: the same kernel on every
machine, whatever the machine's own has. The machine boots what `virtlab image build --kernel generic` keeps. It lives
in a private world of this machine, and inside it every run has a private world of its own, so nothing of either stays.
"""

from virtlab.testbed.lab.backend import LabVm
from virtlab.testbed.lab.xen import XenLab

__all__ = ["LabVm", "XenLab"]
