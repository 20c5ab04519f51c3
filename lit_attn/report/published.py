"""Which published values may stand beside ours? Those of the 2022 comparison of alignment functions, on the very same data.

Only runs on the public files that the paper used get a column: CLEVR's validation questions. Its TextVQA values rest on other
OCR tokens than the public files hold, its COCO retrieval on a subset that is not known, and its pictures and Flickr30K
scores are of test sets, which a study does not measure; these have none.
"""

from collections.abc import Sequence

from lit_attn.report.cross_table import Column
from lit_attn.report.study_data import StudyRun
from lit_attn.report.tables import Spread

CLEVR = {
    "dot": 0.966, "scaled_dot": 0.973, "general_query": 0.967, "general_key": 0.962, "biased_query": 0.959,
    "biased_key": 0.963, "activated": 0.971,
}  # fmt: skip
"""Table 3: accuracy on CLEVR's validation questions."""


def published_columns(runs: Sequence[StudyRun]) -> list[Column]:
    """A column for a recipe whose data are those of the paper, else none."""
    classes = {str(run.run.settings.get("data.class_path", "")) for run in runs if run.run is not None}
    monitors = {run.run.info.monitor for run in runs if run.run is not None}
    if classes == {"lit_attn.data.clevr.Clevr"} and monitors == {"val/accuracy"}:
        return [Column("published, CLEVR", {name: Spread(value, None, 1) for name, value in CLEVR.items()}, True)]
    return []
