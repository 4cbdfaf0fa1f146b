"""Text: vocabularies, policies over tokens, rollouts, and what is measured of samples."""
