"""Weights survive the way into the page."""

import base64
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from lit_attn.report.payload import array_payload, dequantise, picture_uri, quantise


@given(arrays(np.float32, (2, 3, 5), elements=st.floats(0, 1, width=32)))
def test_error_is_below_one_step_of_the_row_maximum(weights: np.ndarray) -> None:
    restored = dequantise(quantise(weights))
    limit = weights.max(axis=-1, keepdims=True) / 255
    assert (np.abs(restored - weights) <= limit + 1e-45).all()


def test_row_maximum_is_exact_and_zero_stays_zero() -> None:
    weights = np.array([[[0.1, 0.7, 0.2], [0.0, 0.0, 0.0]]], dtype=np.float32)
    quantised = quantise(weights)
    assert quantised.codes[0, 0].tolist() == [36, 255, 73]
    assert quantised.codes[0, 1].tolist() == [0, 0, 0]
    np.testing.assert_array_equal(quantised.scales, np.array([[0.7, 0.0]], dtype=np.float32))


def test_rows_with_nan_are_marked_and_leave_others_alone() -> None:
    weights = np.array([[[np.nan, 0.5], [0.25, 0.75]]], dtype=np.float32)
    restored = dequantise(quantise(weights))
    assert np.isnan(restored[0, 0]).all()
    assert restored[0, 1].tolist() == pytest.approx([0.25, 0.75], abs=0.75 / 255)


def test_payload_is_row_major_bytes_and_little_endian_scales() -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(7), size=(3, 5)).astype(np.float32)
    payload = array_payload(weights)
    codes = np.frombuffer(base64.b64decode(str(payload["codes"])), dtype=np.uint8).reshape(3, 5, 7)
    scales = np.frombuffer(base64.b64decode(str(payload["scales"])), dtype="<f4").reshape(3, 5, 1)
    assert payload["shape"] == [3, 5, 7]
    np.testing.assert_allclose(codes * scales / 255, weights, atol=1 / 255)


@given(arrays(np.float32, (2, 3, 5), elements=st.floats(-1, 1, width=32)))
def test_scores_of_either_sign_are_off_by_less_than_one_step(scores: np.ndarray) -> None:
    quantised = quantise(scores)
    limit = np.abs(scores).max(axis=-1, keepdims=True) / 127
    assert (np.abs(dequantise(quantised) - scores) <= limit + 1e-45).all()
    assert (quantised.codes.dtype == np.int8) == bool((scores < 0).any())


def test_a_large_picture_travels_smaller_and_a_small_one_as_it_is() -> None:
    noise = np.random.default_rng(0).integers(0, 255, (200, 300, 3), dtype=np.uint8)
    for size, kind in ((300, "data:image/jpeg"), (20, "data:image/png")):
        output = io.BytesIO()
        Image.fromarray(noise[:, :size]).resize((size, 200)).save(output, "PNG")
        content = output.getvalue()
        assert picture_uri(content).startswith(kind)
    assert picture_uri(b"no picture" * 10_000).startswith("data:image/png")
