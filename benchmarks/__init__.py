"""Ratios, each measured in one run. `make bench` runs them."""

import lit_attn  # noqa: F401 - before lightning, so that torchvision imports beside any torch
