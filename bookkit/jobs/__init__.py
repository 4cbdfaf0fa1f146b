"""Cluster jobs: from job files to launch scripts, their submission, reports of their runs."""
