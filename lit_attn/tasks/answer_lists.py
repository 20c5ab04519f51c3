"""Which words and answers belong to the weights of a model that answers questions? Kept in checkpoints, and compared."""

from typing import Any, Protocol

from lit_attn.errors import UserError


class Words(Protocol):
    """What questions are read with."""

    @property
    def words(self) -> tuple[str, ...]: ...

    @property
    def fingerprint(self) -> str: ...

    def __len__(self) -> int: ...


class Answered(Protocol):
    """A data set of questions."""

    @property
    def vocabulary(self) -> Words: ...

    @property
    def answers(self) -> tuple[str, ...]:
        """What can be answered, or the words that answers are made of, by number."""


def keep_words(checkpoint: dict[str, Any], data: Answered) -> None:
    """Puts the words of questions and the answers into a checkpoint."""
    checkpoint["words"] = list(data.vocabulary.words)
    checkpoint["vocabulary"] = data.vocabulary.fingerprint
    checkpoint["answers"] = list(data.answers)


def check_words(checkpoint: dict[str, Any], data: Answered) -> None:
    """Refuses data whose words or answers have other numbers than those a checkpoint was trained with."""
    if checkpoint.get("vocabulary") not in (None, data.vocabulary.fingerprint):
        trained = len(checkpoint.get("words") or ())
        raise UserError(
            f"The question words of the data ({len(data.vocabulary)}) are not those this checkpoint was trained with"
            f"{f' ({trained})' if trained else ''}. Name the checkpoint with --data.vocabulary, or train anew."
        )
    if checkpoint.get("answers") not in (None, list(data.answers)):
        raise UserError(
            f"The answers of the data ({len(data.answers)}) are not those this checkpoint was trained with "
            f"({len(checkpoint['answers'])}). Name the checkpoint as their source, or train anew."
        )
