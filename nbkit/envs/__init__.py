"""Environments: worlds of text, an arm that is seen through a camera, probes with known answers."""
