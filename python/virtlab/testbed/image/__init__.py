"""What a virtual machine boots: a distribution's kernel and an initial file system with our agent in it, kept in a
cache.

`virtlab image build` fetches a kernel package and unpacks what is needed; nothing is installed. The initial file system
is made from the cache whenever the agent, the kernel or busybox changed, which takes a fraction of a second.
"""

from virtlab.testbed.image.initramfs import Image, boot_image
from virtlab.testbed.image.kernels import FLAVOURS, Kernel, build, find, folder

__all__ = ["FLAVOURS", "Image", "Kernel", "boot_image", "build", "find", "folder"]
