"""What are regions called? The names behind a detector's label ids, and what to say where there are none."""

from dataclasses import dataclass
from pathlib import Path

from lit_attn.data.regions import ATTRIBUTE_THRESHOLD, Ints, Labelled, Regions, look_up, read_label_names
from lit_attn.errors import UserError


@dataclass(frozen=True)
class LabelNames:
    """Names of label ids, and how sure an attribute must be to be told."""

    objects: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    threshold: float = ATTRIBUTE_THRESHOLD

    @classmethod
    def read(cls, objects: str | None, attributes: str | None, threshold: float = ATTRIBUTE_THRESHOLD) -> "LabelNames":
        """Of two files with one name per line, or of none."""
        names = [() if path is None else read_label_names(Path(path)) for path in (objects, attributes)]
        return cls(names[0], names[1], threshold)

    def of(self, regions: Regions) -> tuple[str, ...]:
        """What each region shows; empty without labels."""
        return regions.described(self.objects, self.attributes, self.threshold)

    def of_ids(self, objects: Ints) -> tuple[str, ...]:
        """The same of a detector that has label ids and nothing else."""
        return look_up(objects, self.objects, "object")

    def check(self, labelled: Labelled, picture: str, path: Path) -> None:
        """Phrases can only be linked to regions whose names are known."""
        if labelled == "nothing":
            raise UserError(
                f"{path}: the regions of {picture} have no labels. Phrases are linked to what regions are called: use "
                "regions with labels, such as LXMERT's TSV or those of lit-attn extract regions."
            )
        if labelled == "ids" and not self.objects:
            raise UserError(
                f"{path}: the regions of {picture} have label ids, and no names of them are given. Phrases are linked to "
                "what regions are called: add --data.object_names FILE --data.attribute_names FILE, lists with a name "
                "per line (for lit-attn prepare links: --object-names FILE --attribute-names FILE)."
            )
