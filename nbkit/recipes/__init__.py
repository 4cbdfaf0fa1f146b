"""Recipes: the worlds and settings that pages share with jobs, studies and tests."""
