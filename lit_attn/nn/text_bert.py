"""What does a question say? The first layers of a BERT, pretrained where weights are given.

Source: M4C (Hu et al. 2020), which reads questions with three layers of BERT. Any weights of the BERT family serve: a local
folder or a name on the Hugging Face hub, read from safetensors alone. Attention speaks at `text.0.self` and so on.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from lit_attn.errors import UserError
from lit_attn.nn.bert import BertEmbeddings, BertLayer, BertSizes, init_bert, our_name
from lit_attn.nn.tape import Site

CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"


class TextBert(nn.Module):
    """Word pieces in, one vector for each out."""

    def __init__(self, vocab_size: int, sizes: BertSizes, layers: int, *, max_positions: int = 512) -> None:
        super().__init__()
        self.dim = sizes.dim
        self.sizes = {
            "dim": sizes.dim,
            "num_heads": sizes.num_heads,
            "hidden": sizes.hidden,
            "eps": sizes.eps,
            "max_positions": max_positions,
        }
        """What another such network must be built with to take over the weights of this one."""
        self.embed = BertEmbeddings(vocab_size, sizes, max_positions)
        self.layers = nn.ModuleList(
            BertLayer(sizes, Site(f"text.{i}.self", "words", "words", sizes.num_heads)) for i in range(layers)
        )
        init_bert(self)

    def forward(self, tokens: Int[Tensor, "b t"], token_mask: Bool[Tensor, "b t"]) -> Float[Tensor, "b t d"]:
        limit = self.embed.positions.num_embeddings
        if tokens.shape[1] > limit:
            raise UserError(f"A question has {tokens.shape[1]} tokens, but this BERT knows {limit} positions: cut it.")
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, key_mask=token_mask.unsqueeze(1), query_mask=token_mask)
        return x


def build_text_bert(
    weights: str | None,
    vocab_size: int,
    sizes: BertSizes,
    layers: int,
    trained: Mapping[str, int | float] | None = None,
) -> TextBert:
    """Pretrained, with its own sizes, from a folder or a name on the hub; of the given sizes and random without.

    `trained` are the `sizes` of another network whose weights will be taken over.
    """
    if weights is None and trained is not None:
        dim, heads, hidden = (int(trained[name]) for name in ("dim", "num_heads", "hidden"))
        own = BertSizes(dim, heads, hidden, sizes.dropout, trained["eps"])
        return TextBert(vocab_size, own, layers, max_positions=int(trained["max_positions"]))
    if weights is None:
        return TextBert(vocab_size, sizes, layers)
    config = read_config(weights, layers)
    if config.vocab_size != vocab_size:
        raise UserError(
            f"The questions have a vocabulary of {vocab_size} tokens and the BERT weights {weights!r} one of "
            f"{config.vocab_size}. Cut questions into tokens with the tokenizer of these weights."
        )
    own = BertSizes(
        config.hidden_size,
        config.num_attention_heads,
        config.intermediate_size,
        sizes.dropout,
        config.layer_norm_eps,
    )
    net = TextBert(vocab_size, own, layers, max_positions=config.max_position_embeddings)
    _fill(net, weights)
    return net


def read_config(weights: str, layers: int) -> Any:
    """A `BertConfig`, after checking that it describes layers like ours."""
    from transformers import BertConfig

    file = _find(weights, CONFIG_FILE)
    try:
        found = json.loads(file.read_text())
        kind = found.get("model_type", "bert")
        config = BertConfig.from_dict(found)
    except Exception as error:  # no JSON, or values that transformers' checks refuse, by errors of its own
        raise UserError(f"{file} is no configuration of a BERT: {str(error).strip().splitlines()[0]}") from error
    if kind != "bert":
        raise UserError(f"The weights {weights!r} are those of a model of type {kind!r}; expected 'bert'.")
    if config.hidden_act != "gelu":
        raise UserError(f"The BERT {weights!r} has hidden_act={config.hidden_act!r}; only 'gelu' is known.")
    if config.num_hidden_layers < layers:
        raise UserError(
            f"The BERT {weights!r} has {config.num_hidden_layers} layers, fewer than text_layers={layers}. "
            f"Lower text_layers."
        )
    return config


def _find(weights: str, file: str) -> Path:
    """A file of a local folder or of the hub's cache; fetched if it is not there."""
    from transformers.utils.hub import cached_file

    if Path(weights).is_dir() and not (Path(weights) / file).is_file():
        raise UserError(f"The folder {weights} has no {file}. A BERT needs {CONFIG_FILE} and {WEIGHTS_FILE}.")
    reason: Exception | None = None
    for local in (True, False):  # what is in the cache needs no network, and none is asked for it
        try:
            return Path(str(cached_file(weights, file, local_files_only=local)))
        except (OSError, ValueError) as error:  # absent, offline, or no possible name of a model
            reason = error
    raise UserError(
        f"Cannot find {file} of the BERT weights {weights!r}: {str(reason).splitlines()[0]} Give a folder with "
        f"{CONFIG_FILE} and {WEIGHTS_FILE}, a name on the Hugging Face hub, or null for random weights."
    ) from reason


def _fill(net: TextBert, weights: str) -> None:
    """Strictly for what `net` has; deeper layers, the pooler and heads stay in the file."""
    from safetensors import SafetensorError, safe_open

    file, wanted = _find(weights, WEIGHTS_FILE), net.state_dict()
    try:
        with safe_open(file, framework="pt") as opened:
            named = {our_name(name.removeprefix("bert.")): name for name in opened.keys()}  # noqa: SIM118 - no mapping
            found = {ours: opened.get_tensor(name) for ours, name in named.items() if ours in wanted}
    except (SafetensorError, OSError) as error:
        raise UserError(f"{file} is no safetensors file that can be read: {error}") from error
    lacking = [name for name in wanted if name not in found]
    if lacking:
        more = f" and {len(lacking) - 3} more" if len(lacking) > 3 else ""
        raise UserError(f"{file} is not whole: it lacks the BERT's {', '.join(lacking[:3])}{more}.")
    try:
        net.load_state_dict(found, strict=True)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise UserError(f"{file} does not fit its {CONFIG_FILE}: {reason}") from error
