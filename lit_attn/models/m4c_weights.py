"""How are the published weights of M4C called here? Names of both sides.

Published files come from `facebookresearch/mmf`. Nothing in them tells the number of heads.
"""

import re
from collections.abc import Mapping

from torch import Tensor

from lit_attn.errors import UserError
from lit_attn.nn import bert

_WHOLE = {
    "text_bert_out_linear": "text_join",
    "obj_faster_rcnn_fc7.lc": "object_fc7.0",
    "linear_obj_feat_to_mmt_in": "objects.features",
    "obj_feat_layer_norm": "objects.features_norm",
    "linear_obj_bbox_to_mmt_in": "objects.box",
    "obj_bbox_layer_norm": "objects.box_norm",
    "ocr_faster_rcnn_fc7.lc": "ocr_fc7.0",
    "linear_ocr_feat_to_mmt_in": "ocr.features",
    "ocr_feat_layer_norm": "ocr.features_norm",
    "linear_ocr_bbox_to_mmt_in": "ocr.box",
    "ocr_bbox_layer_norm": "ocr.box_norm",
    "mmt.prev_pred_embeddings.position_embeddings": "previous.positions",
    "mmt.prev_pred_embeddings.token_type_embeddings": "previous.kinds",
    "mmt.prev_pred_embeddings.ans_layer_norm": "previous.answer_norm",
    "mmt.prev_pred_embeddings.ocr_layer_norm": "previous.ocr_norm",
    "mmt.prev_pred_embeddings.emb_layer_norm": "previous.place_norm",
    "ocr_ptr_net.query": "pointer.query",
    "ocr_ptr_net.key": "pointer.key",
    "classifier.module": "classifier",
}
_STACKS = {"text_bert.": "text.", "mmt.": ""}
"""Where BERT layers stand, there and here."""
_DROPPED = re.compile(r"text_bert\.(pooler\..+|embeddings\.position_ids)")


def our_name(published: str) -> str | None:
    """Our name of a published tensor; None for one that is never used."""
    stem, _, end = published.rpartition(".")
    if stem in _WHOLE:
        return f"{_WHOLE[stem]}.{end}"
    if _DROPPED.fullmatch(published):
        return None
    for theirs, ours in _STACKS.items():
        inner = bert.our_name(published.removeprefix(theirs)) if published.startswith(theirs) else None
        if inner is not None:
            return ours + inner
    raise UserError(f"The tensor {published!r} is not one of an M4C.")


def convert(published: Mapping[str, Tensor], max_steps: int) -> dict[str, Tensor]:
    """Published tensors by our names. Their tables of places and kinds have more rows than are ever used."""
    found = {ours: tensor for name, tensor in published.items() if (ours := our_name(name)) is not None}
    for table, rows in (("previous.positions.weight", max_steps), ("previous.kinds.weight", 2)):
        if table not in found:
            raise UserError(f"These are not all weights of an M4C: {table} is missing.")
        found[table] = found[table][:rows]
    return found
