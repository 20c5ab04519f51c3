"""What is written on a sheet?"""

import pytest
from PIL import ImageDraw


@pytest.fixture
def drawn(monkeypatch) -> list[str]:
    """All texts as they reach the sheet."""
    texts: list[str] = []
    original = ImageDraw.ImageDraw.text

    def text(pen, place, text, *more, **options):
        texts.append(text)
        original(pen, place, text, *more, **options)

    monkeypatch.setattr(ImageDraw.ImageDraw, "text", text)
    return texts
