"""How does a published BERT become an encoder to fine-tune? `lit-attn convert bert FOLDER`: its layers under our names.

Nothing in the folder runs. Pooler and heads are left out: they were trained for another question.
"""

import sys
from pathlib import Path

from lit_attn.checkpoint import Weights, write_weights
from lit_attn.cli.arguments import Parser
from lit_attn.data.question_tokens import WordPieces
from lit_attn.nn.bert import BertSizes
from lit_attn.nn.text_bert import build_text_bert, read_config

TASK = "lit_attn.tasks.sentiment.Sentiment"


def run_bert(argv: list[str]) -> None:
    parser = Parser(
        prog="lit-attn convert bert",
        description="The encoder of a BERT as a safetensors file of ours, to be fine-tuned: lit-attn fit sentiment_sst2 "
        "--from_weights FILE.",
    )
    parser.add_argument("source", metavar="FOLDER", help="with config.json and model.safetensors; or a name on the hub")
    parser.add_argument("--out", type=Path, help="where to write (default: the folder's name with .safetensors)")
    given = parser.parse_args(argv)
    out = given.out or Path(f"{Path(given.source).resolve().name}.safetensors")
    converted = convert_bert(given.source)
    write_weights(converted, out)
    settings = " ".join(f"--model.{name} {value}" for name, value in converted.hyperparameters.items())
    sys.stdout.write(
        f"{out}: {len(converted.tensors)} tensors\n"
        f"lit-attn fit sentiment_sst2 --from_weights {out} --data.tokenizer {given.source} --data.root DIR {settings}\n"
    )


def convert_bert(source: str) -> Weights:
    """Embeddings and layers of a BERT under the names of our sentence classifier, with its sizes."""
    config = read_config(source, layers=1)
    layers = config.num_hidden_layers
    net = build_text_bert(source, config.vocab_size, BertSizes(1, 1, 1), layers)
    tensors = {
        "net." + (f"embedding.{name.removeprefix('embed.')}" if name.startswith("embed.") else name): tensor
        for name, tensor in net.state_dict().items()
    }
    return Weights(Path(source), tensors, net.sizes | {"layers": layers}, WordPieces(source).fingerprint, task=TASK)
