"""Cluster jobs: job files to launcher scripts, run folders that survive preemption, reports."""
