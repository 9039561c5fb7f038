"""The models that can be trained or loaded: built from the parts, published, fine-tuned, exported."""
