"""Is every kind of picture found, named and read, and every broken one refused with the reason?"""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lit_attn.errors import UserError
from lit_attn.extract.pictures import find_pictures, open_picture

RED, BLUE = (200, 30, 40), (30, 40, 200)


def two_halves(width: int = 14, height: int = 10) -> Image.Image:
    """Left red, right blue."""
    image = Image.new("RGB", (width, height), RED)
    image.paste(BLUE, (width // 2, 0, width, height))
    return image


def written(image: Image.Image, kind: str, **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def corner(image: Image.Image, right: bool = False) -> tuple[int, ...]:
    assert image.mode == "RGB"
    return image.getpixel((image.width - 2 if right else 1, 1))


@pytest.mark.parametrize(
    ("mode", "kind"),
    [("RGB", "PNG"), ("RGBA", "PNG"), ("P", "PNG"), ("P", "GIF"), ("RGB", "BMP"), ("RGB", "WEBP"), ("CMYK", "TIFF")],
)
def test_modes_and_formats_become_rgb(mode, kind):
    options = {"lossless": True} if kind == "WEBP" else {}
    image = two_halves().quantize(4) if mode == "P" else two_halves().convert(mode)
    picture = open_picture(written(image, kind, **options))
    np.testing.assert_allclose(corner(picture), RED, atol=2)
    np.testing.assert_allclose(corner(picture, right=True), BLUE, atol=2)


def test_cmyk_jpeg_is_not_inverted():
    image = Image.new("CMYK", (16, 16), (0, 255, 255, 0))
    np.testing.assert_allclose(corner(open_picture(written(image, "JPEG", quality=95))), (255, 0, 0), atol=12)


@pytest.mark.parametrize("mode", ["L", "LA", "1"])
def test_greyscale(mode):
    image = Image.new("L", (8, 8), 255)
    image.paste(0, (4, 0, 8, 8))
    picture = open_picture(written(image.convert(mode), "PNG"))
    assert corner(picture) == (255, 255, 255)
    assert corner(picture, right=True) == (0, 0, 0)


@pytest.mark.parametrize(("kind", "dtype", "white"), [("PNG", np.uint16, 65535), ("TIFF", np.uint16, 65535)])
def test_16_bit_greyscale_keeps_its_shades(kind, dtype, white):
    shades = np.linspace(0, white, 11).astype(dtype)
    content = written(Image.fromarray(np.tile(shades, (3, 1))), kind)
    found = np.asarray(open_picture(content))[1, :, 0]
    np.testing.assert_allclose(found, np.linspace(0, 255, 11), atol=1)


def test_floating_point_greyscale_up_to_its_brightest():
    found = np.asarray(open_picture(written(Image.fromarray(np.array([[0, 100, 400]], np.float32)), "TIFF")))
    np.testing.assert_array_equal(found[0, :, 0], [0, 64, 255])


def test_transparency_lies_on_white():
    image = Image.new("RGBA", (4, 4), (0, 0, 0, 0))
    assert corner(open_picture(written(image, "PNG"))) == (255, 255, 255)
    palette = two_halves().quantize(4)
    content = written(palette, "PNG", transparency=palette.getpixel((0, 0)))
    assert corner(open_picture(content)) == (255, 255, 255)
    np.testing.assert_allclose(corner(open_picture(content), right=True), BLUE, atol=2)


def test_exif_rotation_is_applied():
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: the picture must be turned by 90 degrees to the right
    picture = open_picture(written(two_halves(), "PNG", exif=exif))
    assert picture.size == (10, 14)
    assert picture.getpixel((5, 1)) == RED
    assert picture.getpixel((5, 12)) == BLUE


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP"])
def test_of_an_animation_the_first_frame_counts(kind):
    frames = [Image.new("RGB", (6, 6), color) for color in (RED, BLUE)]
    content = written(
        frames[0], kind, save_all=True, append_images=frames[1:], **({"lossless": True} if kind == "WEBP" else {})
    )
    np.testing.assert_allclose(corner(open_picture(content)), RED, atol=2)


def test_broken_pictures_say_why():
    whole = written(Image.effect_noise((64, 64), 50), "JPEG")
    with pytest.raises(UserError, match="the file is empty"):
        open_picture(b"")
    with pytest.raises(UserError, match="not a picture"):
        open_picture(b"<html>404</html>")
    with pytest.raises(UserError, match=r"cannot be read: .*truncated"):
        open_picture(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="cannot be read|not a picture"):
        open_picture(written(two_halves(), "PNG")[:60])


def test_a_picture_of_absurd_size_is_refused(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 50)
    with pytest.raises(UserError, match=r"cannot be read: .*decompression bomb"):
        open_picture(written(two_halves(), "PNG"))


def test_a_damaged_exif_block_does_no_harm():
    exif = b"Exif\0\0II*\0\x08\0\0\0\xff\xff\x12\x01"
    np.testing.assert_allclose(corner(open_picture(written(two_halves(), "PNG", exif=exif))), RED)


def folder(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"")
    return root


def found(*paths: Path) -> list[str]:
    return [source.name for source in find_pictures(paths)]


def test_a_folder_is_searched_recursively_and_names_keep_its_folders(tmp_path):
    folder(tmp_path, "b.JPG", "a.v2.png", "deep/er/b.jpeg", ".hidden.jpg", ".git/x.jpg", "notes.txt", "deep/b.npz")
    assert found(tmp_path) == ["a.v2", "b", "deep/er/b"]


def test_several_folders_and_files_are_named_from_the_folder_that_holds_them_all(tmp_path):
    folder(tmp_path, "x/1.jpg", "y/1.jpg", "z/sub/2.odd")
    assert found(tmp_path / "x", tmp_path / "y") == ["x/1", "y/1"]
    assert found(tmp_path / "x/1.jpg", tmp_path / "x") == ["1"]
    assert found(tmp_path / "x/1.jpg") == ["1"]
    assert found(tmp_path / "z/sub/2.odd", tmp_path / "x") == ["x/1", "z/sub/2"]


def test_links_to_folders_are_followed_but_not_in_circles(tmp_path):
    folder(tmp_path, "here/1.jpg", "elsewhere/2.jpg")
    (tmp_path / "here" / "more").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "here" / "again").symlink_to(tmp_path / "here")
    assert found(tmp_path / "here") == ["1", "more/2"]


def test_nothing_to_read_is_an_error(tmp_path):
    with pytest.raises(UserError, match="no picture or folder .*nowhere"):
        find_pictures([tmp_path / "nowhere"])
    with pytest.raises(UserError, match=r"No pictures in .*\.jpg"):
        find_pictures([tmp_path])
    with pytest.raises(UserError, match="at least one picture"):
        find_pictures([])
