"""A real Ray cluster of two nodes on this machine, one of which may be killed."""

import contextlib
import time

import ray

PATIENCE = 240.0
"""Seconds to wait for anything before the test is given up."""


@contextlib.contextmanager
def two_nodes():
    """Two nodes of one core each; the second, `mortal`, may be killed."""
    from ray.cluster_utils import Cluster

    options = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    made = Cluster(initialize_head=True, head_node_args={**options, "include_dashboard": False})
    try:
        made.mortal = made.add_node(**options, resources={"mortal": 1})
        made.wait_for_nodes()
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


def wait_until(true, what):
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, f"waited too long for {what}"
        time.sleep(0.05)
