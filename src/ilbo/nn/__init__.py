"""The networks: policy and critic, and their parameters."""
