"""The course as pages, and what is drawn: the Transformer, its signposts, moving figures."""
