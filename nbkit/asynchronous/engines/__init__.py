"""The asynchronous loop on engines that place actors on machines: Ray, and PyTorch Monarch."""
