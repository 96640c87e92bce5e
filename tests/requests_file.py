"""An experiment file of one client and one server of requests; `ROLE` stands for what a test says of them."""

FILE = """
version: 1
name: requests
hosts: [h1, h2]
host: {guests: 1}
topology: {shape: line, switches: 1}
link: {rate: 1 Gbit/s}
roles:
  clients: {workload: request_response, from: h1.g1, to: h2.g1, ROLE}
MORErepeat: 1
"""


def requests_file(role: str, more: str = "") -> str:
    """The file with those parameters, and further sections."""
    return FILE.replace("ROLE", role).replace("MORE", more)
