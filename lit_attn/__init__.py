"""Train vision-and-language models and probe their attention."""

from lit_attn._torchvision import repair_on_import

__version__ = "0.1.0"

repair_on_import()
