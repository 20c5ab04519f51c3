"""Which words follow? Greedy, sampling and beam search over any step function.

A step takes the last word of each of `w` beams per picture and a state, and gives log-probabilities of the next word and
the next state; the state holds whatever was computed before, so no prefix is read twice. Id 0 opens and ends every text.
Beams are remembered by back-pointers: the word chosen at each step, and the beam it continues.

Deviations from the published beam search: a finished beam leaves (there its score is set to -1000 and may come back),
the unknown word is named by its id (there the last id), and the search stops when no beam can still win.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self, TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from lit_attn.errors import UserError

END = 0
NEVER = float("-inf")
TRIGRAM_UNIT = math.log(2)

BAD_ENDINGS = (
    "a", "an", "the", "in", "for", "at", "of", "with", "before", "after", "on", "upon", "near", "to", "is", "are", "am",
)  # fmt: skip
"""Words after which a text should not end."""


class State(Protocol):
    """What a step function remembers between words."""

    def reordered(self, parents: Int[Tensor, "b w"]) -> Self:
        """Beam i of the result continues beam `parents[:, i]`."""
        ...


S = TypeVar("S", bound=State)
Step = Callable[[Tensor, S], tuple[Tensor, S]]
"""Last words `b w` and a state; log-probabilities `b w v` and the next state."""
Draw = Callable[[Tensor], Tensor]
"""Probabilities `b w v`; one id of each row, `b w`."""


@dataclass(frozen=True)
class Rules:
    """What may not be written.

    Args:
        unknown: Id of the unknown word, which is then never chosen.
        min_words: No text ends before it has so many words.
        trigram_penalty: Each earlier occurrence of a trigram costs its last word this many times log 2; `inf` forbids it.
        bad_endings: Ids of words after which the text may not end.
    """

    unknown: int | None = None
    min_words: int = 0
    trigram_penalty: float = 0.0
    bad_endings: tuple[int, ...] = ()

    def apply(self, logprobs: Float[Tensor, "b w v"], history: Callable[[], Tensor], length: int) -> Tensor:
        """Log-probabilities after the rules; `history` gives the words so far, `b w t`, when a rule asks."""
        if not (self.min_words > length or self.unknown is not None or self.trigram_penalty or self.bad_endings):
            return logprobs
        allowed = logprobs.clone()
        if self.unknown is not None:
            allowed[..., self.unknown] = NEVER
        if length < self.min_words:
            allowed[..., END] = NEVER
        if self.bad_endings and length:
            last = history()[..., -1]
            bad = torch.isin(last, torch.tensor(self.bad_endings, device=last.device))
            allowed[..., END] = allowed[..., END].masked_fill(bad, NEVER)
        if self.trigram_penalty and length >= 3:
            allowed = allowed - self._trigram_cost(history(), logprobs)
        return allowed

    def _trigram_cost(self, words: Int[Tensor, "b w t"], logprobs: Float[Tensor, "b w v"]) -> Float[Tensor, "b w v"]:
        again = (words[..., :-2] == words[..., -2, None]) & (words[..., 1:-1] == words[..., -1, None])  # b w t-2
        count = torch.zeros_like(logprobs).scatter_add(-1, words[..., 2:], again.to(logprobs.dtype))
        return torch.where(count > 0, count * (TRIGRAM_UNIT * self.trigram_penalty), 0.0)


class Decoded(NamedTuple):
    """`w` texts per picture; END and what follows is 0, log-probabilities after END as well."""

    tokens: Int[Tensor, "b w t"]
    logprobs: Float[Tensor, "b w t"]


class Beams(NamedTuple):
    """The best texts per picture, best first."""

    tokens: Int[Tensor, "b w t"]
    logprobs: Float[Tensor, "b w t"]
    scores: Float[Tensor, "b w"]
    """Sum of log-probabilities, over the number of steps if normalised by length."""


def greedy(step: Step[S], state: S, start: Int[Tensor, "b w"], max_words: int, rules: Rules | None = None) -> Decoded:
    """The most probable word at each step."""
    return _one_by_one(step, state, start, max_words, rules, lambda logprobs: logprobs.argmax(-1))


def sample(
    step: Step[S],
    state: S,
    start: Int[Tensor, "b w"],
    max_words: int,
    rules: Rules | None = None,
    temperature: float = 1.0,
    draw: Draw | None = None,
) -> Decoded:
    """`w` texts per picture, words drawn at random. Log-probabilities are at temperature 1, with gradients if the step has."""
    if not temperature > 0:
        raise UserError(f"The temperature of sampling must be positive, got {temperature}.")
    drawn_by = draw or _draw

    def choose(logprobs: Tensor) -> Tensor:
        return drawn_by((logprobs.detach() / temperature).softmax(-1))

    return _one_by_one(step, state, start, max_words, rules, choose)


def _draw(probabilities: Tensor) -> Tensor:
    return torch.multinomial(probabilities.flatten(0, 1), 1).view(probabilities.shape[:2])


def _one_by_one(
    step: Step[S],
    state: S,
    start: Tensor,
    max_words: int,
    rules: Rules | None,
    choose: Callable[[Tensor], Tensor],
) -> Decoded:
    _check(max_words)
    rules = rules or Rules()
    tokens: list[Tensor] = []
    scores: list[Tensor] = []
    last, running = start, torch.ones_like(start, dtype=torch.bool)
    for length in range(max_words):
        logprobs, state = step(last, state)
        chosen = choose(rules.apply(logprobs, lambda: torch.stack(tokens, -1), length))
        own = logprobs.gather(-1, chosen.unsqueeze(-1)).squeeze(-1)
        last = torch.where(running, chosen, END)
        tokens.append(last)
        scores.append(torch.where(running, own, 0.0))
        running = running & (last != END)
        if not bool(running.any()):
            break
    missing = (0, max_words - len(tokens))
    return Decoded(F.pad(torch.stack(tokens, -1), missing), F.pad(torch.stack(scores, -1), missing))


def beam_search(
    step: Step[S],
    state: S,
    start: Int[Tensor, "b 1"],
    width: int,
    max_words: int,
    rules: Rules | None = None,
    by_length: bool = False,
) -> Beams:
    """The `width` texts with the largest sums of log-probabilities that a search with so many beams finds.

    Args:
        by_length: Rank texts by their sum over their number of steps, END included.
    """
    _check(max_words)
    if width < 1:
        raise UserError(f"Beam search needs at least one beam, got width={width}.")
    rules = rules or Rules()
    past = _Past([], [], [])
    found = _Found.none(len(start), width, start.device)
    last, live = start, torch.zeros(len(start), 1, device=start.device)
    for length in range(max_words):
        logprobs, state = step(last, state)
        allowed = rules.apply(logprobs, past.words_so_far, length)
        candidates = (live.unsqueeze(-1).to(allowed.dtype) + allowed).flatten(1)
        candidates = F.pad(candidates, (0, max(0, width - candidates.shape[1])), value=NEVER)
        live, place = candidates.topk(width)
        place = place.clamp_max(allowed[0].numel() - 1)  # what was padded goes nowhere
        parents, last = place // allowed.shape[-1], place % allowed.shape[-1]
        past.add(parents, last, logprobs.flatten(1).gather(1, place))
        ended = (last == END) | (length == max_words - 1)
        score = live / (length + 1) if by_length else live
        found = found.joined(score.masked_fill(~ended, NEVER), length)
        live = live.masked_fill(ended, NEVER)
        hope = live.amax(1) / max_words if by_length else live.amax(1)
        if bool((hope <= found.scores[:, -1]).all()):
            break
        state = state.reordered(parents)
    return past.traced(found, max_words)


@dataclass(frozen=True)
class _Found:
    """Finished texts, best first: score, and the step and beam where they ended. Step -1: none."""

    scores: Tensor
    steps: Tensor
    beams: Tensor

    @classmethod
    def none(cls, pictures: int, width: int, device: torch.device) -> "_Found":
        size = (pictures, width)
        nowhere = torch.full(size, -1, device=device)
        return cls(torch.full(size, NEVER, device=device), nowhere, torch.zeros_like(nowhere))

    def joined(self, scores: Float[Tensor, "b w"], step: int) -> "_Found":
        """The best of these and the texts that end at this step; among equals the earlier one."""
        here = torch.where(scores > NEVER, step, -1)
        beams = torch.arange(scores.shape[1], device=scores.device).expand_as(scores)
        both = torch.cat([self.scores.to(scores.dtype), scores], 1)
        best, order = both.sort(dim=1, descending=True, stable=True)
        order = order[:, : scores.shape[1]]
        return _Found(
            best[:, : scores.shape[1]],
            torch.cat([self.steps, here], 1).gather(1, order),
            torch.cat([self.beams, beams], 1).gather(1, order),
        )


class _Past(NamedTuple):
    """Per step and beam: the beam before it, the word, and its log-probability."""

    parents: list[Tensor]
    words: list[Tensor]
    logprobs: list[Tensor]

    def add(self, parents: Tensor, words: Tensor, logprobs: Tensor) -> None:
        self.parents.append(parents)
        self.words.append(words)
        self.logprobs.append(logprobs)

    def words_so_far(self) -> Int[Tensor, "b w t"]:
        """The words of each beam as they stand."""
        beams = torch.arange(self.words[-1].shape[1], device=self.words[-1].device).expand_as(self.words[-1])
        steps = torch.full_like(beams, len(self.words) - 1)
        return self._follow(steps, beams, len(self.words))[0]

    def traced(self, found: _Found, max_words: int) -> Beams:
        tokens, logprobs = self._follow(found.steps, found.beams, max_words)
        return Beams(tokens, logprobs, found.scores)

    def _follow(self, steps: Tensor, beams: Tensor, length: int) -> tuple[Tensor, Tensor]:
        """Words and log-probabilities, from the last one back to the first."""
        tokens = beams.new_zeros(*beams.shape, length)
        logprobs = torch.zeros(*beams.shape, length, device=beams.device, dtype=self.logprobs[0].dtype)
        for t in reversed(range(len(self.words))):
            inside = steps >= t
            tokens[..., t] = torch.where(inside, self.words[t].gather(1, beams), END)
            logprobs[..., t] = torch.where(inside, self.logprobs[t].gather(1, beams), 0.0)
            beams = torch.where(inside, self.parents[t].gather(1, beams), beams)
        return tokens, logprobs


def _check(max_words: int) -> None:
    if max_words < 1:
        raise UserError(f"A text needs room for at least one word, got max_words={max_words}.")
