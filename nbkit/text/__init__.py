"""Text: vocabularies; language, reward and value models; rollouts, and what is measured of them."""
