"""Do hints name what the refusing class itself takes, and never the very word that was refused?"""

import pytest

PROBE = """
trainer:
  callbacks+:
    - class_path: lit_attn.callbacks.attention_probe.AttentionProbe
      init_args:
        probes:
          - class_path: lit_attn.probes.{path}
            init_args: {{{option}: predict}}
"""


@pytest.mark.parametrize(
    ("path", "option", "expected"),
    [
        ("part_of_speech.PartOfSpeech", "algin", "Option 'algin' is not accepted. Did you mean 'align'? See"),
        ("part_of_speech.PartOfSpech", "align", "has no attribute 'PartOfSpech'. Did you mean 'PartOfSpeech'? See"),
        (
            "part_of_speach.PartOfSpeech",
            "align",
            "has no attribute 'part_of_speach'. Did you mean 'part_of_speech'? See",
        ),
    ],
)
def test_hints_deep_in_an_overlay(inside, tmp_path, path, option, expected):
    (tmp_path / "own.yaml").write_text(PROBE.format(path=path, option=option))
    done = inside("validate", "tiny/captioner", "--config", "own.yaml")
    assert done.returncode == 2
    assert expected in done.stderr


@pytest.mark.parametrize(
    ("recipe", "words", "expected"),
    [
        ("tiny/captioner", ["--model.layers", "3"], "Option 'layers' is not accepted. Did you mean 'encoder_layers'?"),
        ("tiny/mac", ["--data.annotate", "x"], "Option 'annotate' is not accepted. See every key"),
        ("tiny/m4c", ["--model.capture", "raw_residual"], "Option 'capture' is not accepted. See every key"),
        ("tiny/scan", ["--model", "Machting"], "import path string: Machting. Did you mean 'Matching'?"),
        ("tiny/scan", ["--rum", "3"], "unrecognized arguments: --rum 3. Did you mean 'run'?"),
        ("tiny/scan", ["--modle.alignment", "dot"], "--modle.alignment dot. Did you mean 'model'?"),
        ("tiny/scan", ["--trainer.max_epohcs", "3"], "--trainer.max_epohcs 3. Did you mean 'max_epochs'?"),
        ("tiny/scan", ["--model.net.foo", "3"], "unrecognized arguments: --net.foo=3. See every key"),
    ],
)
def test_hints_for_options(inside, recipe, words, expected):
    done = inside("validate", recipe, *words)
    assert done.returncode == 2
    assert expected in done.stderr
