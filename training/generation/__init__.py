"""Generating text from any language model, and the chat templates that prompts are written in."""
