"""Train vision-and-language models and probe their attention."""

__version__ = "0.1.0"
