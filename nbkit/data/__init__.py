"""Data: loaders that report what they leave out, chats, token ids; what is downloaded."""
