"""Where does the grammar of captions and questions come from, and which regions do their noun phrases name?

Texts that are evaluated are annotated and linked once, and kept beside the data; probes listen to nothing else.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from lit_attn.data.annotate.pipeline import Pipeline, open_pipeline
from lit_attn.data.annotate.source import Texts, annotate, completed
from lit_attn.data.linking.linker import Linker
from lit_attn.data.linking.links import link, link_once
from lit_attn.data.linking.named import open_linker
from lit_attn.errors import UserError
from lit_attn.language.phrases import Exclude, Kind
from lit_attn.types import Annotation

Descriptions = Mapping[str, Sequence[str]]
"""By sample id what each region of the text's picture is called."""


class Grammar:
    """A parser or a file of annotations, the rules for noun phrases, and perhaps a linker.

    Args:
        source: A spaCy pipeline such as `en_core_web_sm`, a `.conllu` or `.jsonl` file; None for no annotations.
        link: A linker of `lit_attn.data.linking.named`, None for none.
        phrases, exclude: Which noun phrases, see `noun_phrases`.
    """

    def __init__(
        self, source: str | None, link: str | None = None, phrases: Kind = "nested", exclude: Exclude = "exact"
    ) -> None:
        if link is not None and source is None:
            raise UserError(
                f"data.link {link!r} needs noun phrases: name a parser, too (data.annotate en_core_web_sm)."
            )
        self.source, self.link = source, link
        self.phrases, self.exclude = phrases, exclude

    @cached_property
    def linker(self) -> Linker | None:
        return None if self.link is None else open_linker(self.link)

    def annotations(self, texts: Texts, data: Path, described: Callable[[], Descriptions]) -> dict[str, Annotation]:
        """By sample id; with noun phrases linked to regions where that is asked for, and only then are these described.

        Args:
            data: The file or folder that the texts come from: annotations and links are kept beside it.
        """
        if self.source is None:
            return {}
        found = annotate(texts, self.source, data, self.phrases, self.exclude)
        return found if self.linker is None else link(found, described(), self.linker, data)

    def written(
        self, texts: Mapping[int, str], described: Callable[[int], Sequence[str]]
    ) -> dict[int, Annotation | None]:
        """The same for texts that a model wrote, but kept nowhere. None for a text without words."""
        said = {number: tokens for number, text in texts.items() if (tokens := tuple(text.split()))}
        parsed = self._pipeline.annotate(list(said.values()), processes=1)
        found = {
            number: completed(annotation, self.phrases, self.exclude)
            for number, annotation in zip(said, parsed, strict=True)
        }
        if self.linker is not None and found:
            found = link_once(found, {number: described(number) for number in found}, self.linker)
        return {number: found.get(number) for number in texts}

    @property
    def _pipeline(self) -> Pipeline:
        if self.source is None or self.source.endswith((".conllu", ".jsonl", ".jsonl.gz")):
            raise UserError(
                f"Texts that a model wrote need a parser, and data.annotate is {self.source!r}. "
                "Name a spaCy pipeline: --data.annotate en_core_web_sm."
            )
        return open_pipeline(self.source)
