"""Using a trained model: generate, translate, chat, evaluate, plot, compare and export."""
