"""Recipes: the worlds and settings that pages, studies and tests share."""
