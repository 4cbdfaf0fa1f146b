"""What runs in the learner's process. The sandbox receives these files as text."""
