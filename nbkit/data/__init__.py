"""Data for learning from people: loaders that report what they leave out, chats, token ids."""
