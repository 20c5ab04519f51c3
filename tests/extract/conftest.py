"""Which detector do tests run? An untrained one, with fixed weights, that still tells boxes apart."""

import numpy as np
import pytest
import torch
from PIL import Image

from lit_attn.extract.detector import Detector, Selection
from lit_attn.extract.weights import Network, load_network

PROPOSALS = 150
"""Instead of 1000: quicker."""


@pytest.fixture(scope="session")
def photo() -> Image.Image:
    """Something with edges and colours."""
    rng = np.random.default_rng(0)
    blocks = rng.integers(0, 256, (7, 11, 3), np.uint8)
    return Image.fromarray(blocks).resize((110, 70), Image.Resampling.NEAREST)


@pytest.fixture(scope="session")
def network(photo) -> Network:
    """ResNet-50, whose classifier reads how a region differs from the mean region of `photo`: so it names many classes."""
    network = load_network("fasterrcnn_resnet50_fpn", "random")
    network.model.rpn._post_nms_top_n["testing"] = PROPOSALS
    features = torch.from_numpy(Detector(network, Selection(PROPOSALS, PROPOSALS), 64)(photo, "photo").features)
    with torch.no_grad():
        classifier = network.model.roi_heads.box_predictor.cls_score
        classifier.bias.copy_(-classifier.weight @ features.mean(0))
    return network
