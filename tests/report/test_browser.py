"""The page works in a real browser, from disk, with mouse and keyboard."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lit_attn.report.page import write_report

selenium = pytest.importorskip("selenium", reason="install selenium to run it")

from selenium import webdriver  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.remote.webelement import WebElement  # noqa: E402
from selenium.webdriver.support.ui import Select  # noqa: E402

HOSTILE = '<img src=x onerror="window.injected=1"></script><script>window.injected=1</script>\'🐈'


@pytest.fixture(scope="module")
def run(
    tmp_path_factory: pytest.TempPathFactory, write_run: Callable[..., Path], sample_writer: Callable[..., None]
) -> Path:
    folder = write_run(tmp_path_factory.mktemp("runs") / "scan", samples=4, name=HOSTILE)
    sample_writer(
        folder / "gallery", 4, words=[HOSTILE, "sofa", "plant"], title=HOSTILE, labels=[HOSTILE] * 36, gold=[]
    )
    write_report([folder])
    return folder


@pytest.fixture
def page(browser: webdriver.Chrome, run: Path) -> webdriver.Chrome:
    for kind in ("browser", "performance"):
        browser.get_log(kind)
    browser.get("about:blank")
    browser.get((run / "report" / "index.html").as_uri())
    return browser


def weights(run: Path, key: str, sample: int = 0) -> np.ndarray:
    with np.load(run / "gallery" / f"scene-{sample}.npz") as arrays:
        return arrays[key].astype(np.float64)


def words(page: webdriver.Chrome) -> list[WebElement]:
    return page.find_elements(By.CSS_SELECTOR, ".pane:not([hidden]) [data-words=words] button")


def boxes(page: webdriver.Chrome) -> dict[int, WebElement]:
    found = page.find_elements(By.CSS_SELECTOR, "[data-pane='0'] .box")
    return {int(box.get_attribute("data-index") or -1): box for box in found}


def opacities(page: webdriver.Chrome, pane: int = 0) -> np.ndarray:
    script = """
        const boxes = [...document.querySelectorAll(`[data-pane="${arguments[0]}"] .box`)];
        return boxes.map((box) => [Number(box.dataset.index), Number(getComputedStyle(box).opacity)]);
    """
    pairs = page.execute_script(script, pane)
    return np.array([opacity for _, opacity in sorted(map(tuple, pairs))])


def hover(page: webdriver.Chrome, target: WebElement) -> None:
    ActionChains(page).move_to_element(target).perform()


def choose_head(page: webdriver.Chrome, head: str) -> None:
    page.execute_script("document.querySelector(`[data-role=head] input[value='${arguments[0]}']`).click()", head)


def role(page: webdriver.Chrome, name: str, pane: int = 0) -> WebElement:
    return page.find_element(By.CSS_SELECTOR, f"[data-pane='{pane}'] [data-role='{name}']")


def test_opens_from_disk_without_errors_or_network(page: webdriver.Chrome, run: Path) -> None:
    hover(page, words(page)[2])
    assert page.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    asked = [found["params"]["request"]["url"] for found in messages if found["method"] == "Network.requestWillBeSent"]
    assert {url.split(":", 1)[0] for url in asked} <= {"file", "data", "about"}
    assert page.execute_script(
        "return document.querySelector('.picture image').href.baseVal.startsWith('data:image/png')"
    )
    assert len(words(page)) == 14
    assert len(boxes(page)) == 36


def test_policy_forbids_the_network_and_foreign_scripts(page: webdriver.Chrome) -> None:
    refused = page.execute_async_script("""
        const done = arguments[0];
        document.addEventListener("securitypolicyviolation", (event) => done(event.effectiveDirective), { once: true });
        fetch("https://example.org/").catch(() => null);
    """)
    assert refused == "connect-src"
    page.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.late = 1'; document.body.append(s)"
    )
    assert page.execute_script("return window.late === undefined")


def test_hovering_a_word_lights_its_boxes_by_weight(page: webdriver.Chrome, run: Path) -> None:
    mean = weights(run, "cross").mean(axis=0)
    for word in (0, 2, 8):
        hover(page, words(page)[word])
        shown = opacities(page)
        assert shown.argmax() == mean[word].argmax()
        assert np.abs(shown - (0.1 + 0.9 * mean[word] / mean[word].max())).max() < 0.01


def test_another_head_changes_the_boxes(page: webdriver.Chrome, run: Path) -> None:
    cross = weights(run, "cross")
    words(page)[2].click()
    before = opacities(page)
    choose_head(page, "5")
    after = opacities(page)
    assert after.argmax() == cross[5, 2].argmax()
    assert np.abs(after - before).max() > 0.05
    assert np.abs(after - (0.1 + 0.9 * cross[5, 2] / cross[5, 2].max())).max() < 0.01


def test_strongest_regions_and_gold_mass_are_listed(page: webdriver.Chrome, run: Path) -> None:
    mean = weights(run, "cross").mean(axis=0)[2]
    words(page)[2].click()
    listed = page.find_elements(By.CSS_SELECTOR, "[data-role=strongest] li")
    numbers = [int(item.text.split("(")[1].split(")")[0]) for item in listed]
    assert numbers == np.argsort(-mean)[:6].tolist()
    gold = [region for region in range(36) if region % 6 == 0]
    reading = role(page, "gold").text
    assert reading.startswith(f"{100 * mean[gold].sum():.0f} % of the weight is on the 6 named regions")
    marked = page.find_elements(By.CSS_SELECTOR, ".picture .box.gold")
    assert sorted(int(box.get_attribute("data-index") or -1) for box in marked) == gold


def test_pointing_at_a_box_lights_words_by_the_columns_of_the_map(page: webdriver.Chrome, run: Path) -> None:
    mean = weights(run, "cross").mean(axis=0)
    boxes(page)[7].send_keys(Keys.NULL)
    shown = [float(word.get_attribute("data-weight") or "nan") for word in words(page)]
    assert np.abs(np.array(shown) - mean[:, 7]).max() < 0.01
    assert "is attended to by these words" in role(page, "reading").text


def test_maps_from_regions_to_words_and_within_words(page: webdriver.Chrome, run: Path) -> None:
    sites = Select(role(page, "part"))
    sites.select_by_index(1)
    match = weights(run, "match")[0]
    hover(page, words(page)[2])
    assert opacities(page).argmax() == match[:, 2].argmax()
    boxes(page)[4].send_keys(Keys.NULL)
    shown = np.array([float(word.get_attribute("data-weight") or "nan") for word in words(page)])
    assert np.abs(shown - match[4]).max() < 0.01
    assert "attends to these words" in role(page, "reading").text
    sites.select_by_index(2)
    within = weights(run, "self").mean(axis=0)
    words(page)[5].click()
    shown = np.array([float(word.get_attribute("data-weight") or "nan") for word in words(page)])
    assert shown.argmax() == within[5].argmax()


def test_keyboard_alone_is_enough(page: webdriver.Chrome, run: Path) -> None:
    thumbs = page.find_elements(By.CSS_SELECTOR, "#strip button")
    page.execute_script("arguments[0].focus()", thumbs[0])
    ActionChains(page).send_keys(Keys.ARROW_RIGHT).perform()
    assert thumbs[1].get_attribute("aria-selected") == "true"
    assert page.switch_to.active_element == thumbs[1]
    assert len(words(page)) == 10
    ActionChains(page).send_keys(Keys.HOME).perform()
    mean = weights(run, "cross").mean(axis=0)
    page.execute_script("document.querySelector('[data-role=head] input:checked').focus()")
    ActionChains(page).send_keys(Keys.ARROW_RIGHT).perform()
    assert page.execute_script("return document.querySelector('[data-role=head] input:checked').value") == "0"
    assert page.execute_script("return document.activeElement.value") == "0"
    choose_head(page, "mean")
    page.execute_script("arguments[0].focus()", words(page)[0])
    ActionChains(page).send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT).perform()
    assert page.switch_to.active_element == words(page)[2]
    assert opacities(page).argmax() == mean[2].argmax()
    assert page.execute_script("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    ActionChains(page).send_keys(Keys.ENTER).perform()
    page.execute_script("document.activeElement.blur()")
    assert opacities(page).argmax() == mean[2].argmax()
    page.execute_script("arguments[0].focus()", boxes(page)[0])
    ActionChains(page).send_keys(Keys.ARROW_RIGHT).perform()
    assert page.execute_script("return document.activeElement.dataset.index") == "1"
    ActionChains(page).send_keys(Keys.ESCAPE).perform()
    assert len(set(opacities(page))) == 1


def test_injected_markup_is_only_text(page: webdriver.Chrome) -> None:
    thumbs = page.find_elements(By.CSS_SELECTOR, "#strip button")
    thumbs[4].click()
    hover(page, words(page)[0])
    assert words(page)[0].text == HOSTILE
    assert role(page, "title").text == HOSTILE
    assert page.find_element(By.TAG_NAME, "h1").text.startswith(HOSTILE)
    assert page.execute_script("return window.injected === undefined")
    assert page.get_log("browser") == []


def test_sample_without_a_picture(page: webdriver.Chrome) -> None:
    page.find_elements(By.CSS_SELECTOR, "#strip button")[3].click()
    assert page.find_elements(By.CSS_SELECTOR, ".picture image") == []
    assert len(boxes(page)) == 36


def test_whole_map_and_slider(page: webdriver.Chrome, run: Path) -> None:
    page.execute_script("document.querySelector('[data-role=fold]').open = true")
    size = page.execute_async_script(
        "const done = arguments[0]; setTimeout(() => { const map = document.querySelector('.whole-map canvas');"
        "done([map.width, map.height]); }, 50);"
    )
    assert size == [36, 14]
    slider = page.find_element(By.CSS_SELECTOR, "input[data-heat]")
    table = page.find_element(By.ID, str(slider.get_attribute("data-heat")))
    cell = table.find_element(By.CSS_SELECTOR, "tbody td")
    before = (cell.text, cell.value_of_css_property("background-color"))
    slider.send_keys(Keys.HOME)
    assert table.find_element(By.TAG_NAME, "output").text == "100"
    first = next(
        line.split(",")
        for line in (run / "attention" / "val-00000100.csv").read_text().splitlines()
        if "entropy" in line
    )
    assert cell.text == f"{float(first[3]):.2f}"
    assert (cell.text, cell.value_of_css_property("background-color")) != before
    slider.send_keys(Keys.END)
    assert (cell.text, cell.value_of_css_property("background-color")) == before


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast_in_both_schemes(page: webdriver.Chrome, scheme: str) -> None:
    page.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    script = "const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]"
    ink, paper = (_luminance(color) for color in page.execute_script(script))
    lighter, darker = max(ink, paper), min(ink, paper)
    assert (ink < paper) == (scheme == "light")
    assert (lighter + 0.05) / (darker + 0.05) > 7


def _luminance(color: str) -> float:
    channels = [int(part) / 255 for part in color.removeprefix("rgb(").removesuffix(")").split(",")]
    linear = [channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4 for channel in channels]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def test_narrow_windows_do_not_scroll_sideways(page: webdriver.Chrome) -> None:
    page.set_window_size(600, 1000)
    try:
        assert page.execute_script(
            "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        )
    finally:
        page.set_window_size(1400, 2200)


def test_another_run_shows_the_same_sample(
    browser: webdriver.Chrome, tmp_path: Path, small_run: Path, sample_writer: Callable[..., None]
) -> None:
    other = tmp_path / "checkpoints" / "other"
    shutil.copytree(small_run, other)
    (other / "run.json").unlink()
    for number in (0, 1):
        sample_writer(other / "gallery", number, heads=3)
    with np.load(other / "gallery" / "scene-0.npz") as stored:
        arrays = dict(stored)
    arrays["cross"][:, 2] = np.eye(36)[17]
    arrays["cross"][:, 3] = np.nan
    np.savez(other / "gallery" / "scene-0.npz", **arrays)
    browser.get(write_report([small_run, other]).as_uri())
    words(browser)[2].click()
    assert opacities(browser).argmax() != 17
    Select(role(browser, "run")).select_by_visible_text("other")
    shown = [thumb for thumb in browser.find_elements(By.CSS_SELECTOR, "#strip button") if thumb.is_displayed()]
    assert [thumb.get_attribute("data-id") for thumb in shown] == ["scene-0", "scene-1"]
    assert opacities(browser).argmax() == 17
    words(browser)[3].click()
    assert "there are no numbers here" in role(browser, "reading").text


def test_side_by_side_shows_both_runs_and_follows_the_pointer(
    browser: webdriver.Chrome, tmp_path: Path, small_run: Path, sample_writer: Callable[..., None]
) -> None:
    other = tmp_path / "checkpoints" / "other"
    shutil.copytree(small_run, other)
    (other / "run.json").unlink()
    with np.load(other / "gallery" / "scene-0.npz") as stored:
        arrays = dict(stored)
    arrays["cross"][:, 2] = np.eye(36)[17]
    np.savez(other / "gallery" / "scene-0.npz", **arrays)
    browser.get(write_report([small_run, other]).as_uri())
    browser.find_element(By.ID, "compare").click()
    hover(browser, words(browser)[2])
    assert opacities(browser, 0).argmax() == weights(small_run, "cross")[0, 2].argmax()
    assert opacities(browser, 1).argmax() == 17
    chosen = Select(role(browser, "run", 1)).first_selected_option.text
    assert (Select(role(browser, "run")).first_selected_option.text, chosen) == ("small", "other")
    browser.find_element(By.ID, "compare").click()
    assert len(browser.find_elements(By.CSS_SELECTOR, ".pane:not([hidden])")) == 1


def test_attribution_methods_stand_beside_attention(browser: webdriver.Chrome, small_run: Path) -> None:
    scores = np.full((14, 36), np.nan, np.float32)
    scores[2] = np.linspace(-2, 1, 36)
    (small_run / "gallery" / "attribution").mkdir()
    np.savez(small_run / "gallery" / "attribution" / "scene-0.npz", **{"gae.words.regions": scores})
    browser.get(write_report([small_run]).as_uri())
    Select(role(browser, "method")).select_by_visible_text("gae")
    hover(browser, words(browser)[2])
    shown = [float(box.get_attribute("data-weight") or "nan") for _, box in sorted(boxes(browser).items())]
    np.testing.assert_allclose(shown, scores[2], atol=2 / 127)
    assert opacities(browser).argmax() == 0, "the largest size, whatever its sign"
    assert "against" in str(boxes(browser)[0].get_attribute("class"))
    assert "against" not in str(boxes(browser)[35].get_attribute("class"))
    hover(browser, words(browser)[3])
    assert "there are no numbers here" in role(browser, "reading").text


def test_a_cell_of_the_heat_map_leads_to_the_page_of_its_head(page: webdriver.Chrome, run: Path) -> None:
    link = page.find_element(By.CSS_SELECTOR, "table.heat a[href='#head=0/decoder.2.cross/5']")
    page.execute_script("arguments[0].click()", link)
    head = page.find_element(By.ID, "head")
    assert head.find_element(By.TAG_NAME, "h2").text == "decoder · cross, layer 3, head 6"
    assert "decoder.2.cross:5 in files" in head.text
    value = next(
        line.split(",")[3]
        for line in (run / "attention" / "val-00001000.csv").read_text().splitlines()
        if line.startswith("decoder.2.cross,5,entropy")
    )
    assert f"{float(value):.3g}" in head.find_element(By.TAG_NAME, "table").text
    assert not page.find_element(By.ID, "gallery").is_displayed()
    maps = head.find_elements(By.CSS_SELECTOR, ".head-map")
    assert len(maps) == 5
    maps[1].click()
    assert not head.is_displayed()
    assert page.execute_script("return document.querySelector('[data-role=head] input:checked').value") == "5"
    assert role(page, "title").text == "scene-1"
    page.execute_script("arguments[0].click()", words(page)[2])
    assert opacities(page).argmax() == weights(run, "cross", 1)[5, 2].argmax()


def test_the_stepper_goes_through_the_words(page: webdriver.Chrome, run: Path) -> None:
    mean = weights(run, "cross").mean(axis=0)
    words(page)[4].click()
    role(page, "on").click()
    assert role(page, "step").text == "word 6 of 14"
    assert opacities(page).argmax() == mean[5].argmax()
    role(page, "back").click()
    assert opacities(page).argmax() == mean[4].argmax()
