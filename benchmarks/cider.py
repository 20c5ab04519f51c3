"""How much faster is the CIDEr-D reward than the public Python?

Prints one ratio, measured in one process with both sides taking turns: the rewards of self-critical batches of 10 pictures
with 5 sampled captions each, the sampled and the greedy ones scored against 5 references, over fresh pictures in every
batch, so that no reference is remembered from the batch before; and a second one over the same pictures again, as in the
next epoch. The other side is our own writing of the published way: ids become strings, n-grams are tuples of strings in
dictionaries, and all references are counted and weighted anew for every hypothesis. Run with `make bench`.
"""

import statistics
import time
from collections import defaultdict

import numpy as np

from lit_attn.ops.cider import CiderD, DocumentFrequencies, with_end

VOCABULARY = 9487
COUNTED_PICTURES = 5000
PICTURES, SAMPLES, REFERENCES = 10, 5, 5
BATCHES = 20
PLACES = 16

Ids = list[list[int]]
Batch = tuple[list[Ids], Ids, Ids]
"""References of each picture; sampled captions; the greedy caption, once for every sampled one."""


def weigh(
    sentence: str, frequencies: dict[tuple[str, ...], float], log_pictures: float
) -> tuple[list[dict[tuple[str, ...], float]], list[float], int]:
    """Weighted n-grams by n, their norms, and the number of bigrams."""
    words = sentence.split()
    counts: dict[tuple[str, ...], int] = defaultdict(int)
    for n in range(1, 5):
        for start in range(len(words) - n + 1):
            counts[tuple(words[start : start + n])] += 1
    vectors: list[dict[tuple[str, ...], float]] = [defaultdict(float) for _ in range(4)]
    squares = [0.0] * 4
    length = 0
    for ngram, times in counts.items():
        n = len(ngram) - 1
        vectors[n][ngram] = float(times) * (log_pictures - np.log(max(1.0, frequencies[ngram])))
        squares[n] += pow(vectors[n][ngram], 2)
        if n == 1:
            length += times
    return vectors, [np.sqrt(square) for square in squares], length


def public_score(
    hypothesis: str, references: list[str], frequencies: dict[tuple[str, ...], float], log_pictures: float
) -> float:
    vectors, norms, length = weigh(hypothesis, frequencies, log_pictures)
    score = np.zeros(4)
    for reference in references:
        own_vectors, own_norms, own_length = weigh(reference, frequencies, log_pictures)
        values = np.zeros(4)
        for n in range(4):
            for ngram in vectors[n]:
                values[n] += min(vectors[n][ngram], own_vectors[n][ngram]) * own_vectors[n][ngram]
            if norms[n] != 0 and own_norms[n] != 0:
                values[n] /= norms[n] * own_norms[n]
            values[n] *= np.e ** (-(float(length - own_length) ** 2) / (2 * 6.0**2))
        score += values
    return float(np.mean(score) / len(references) * 10.0)


def public_rewards(
    batch: Batch, frequencies: dict[tuple[str, ...], float], log_pictures: float
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    references, sampled, greedy = batch

    def text(ids: list[int]) -> str:
        out = ""
        for token in ids:
            out += str(token) + " "
            if token == 0:
                break
        return out.strip()

    texts = [[text(ids) for ids in own] for own in references]
    scores = [
        public_score(text(ids), texts[row % len(sampled) // SAMPLES], frequencies, log_pictures)
        for row, ids in enumerate(sampled + greedy)
    ]
    return np.array(scores[: len(sampled)]) - np.array(scores[len(sampled) :])


def our_rewards(batch: Batch, scorer: CiderD) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    references, sampled, greedy = batch
    cut = [[with_end(ids) for ids in own] for own in references]
    repeated = [own for own in cut for _ in range(SAMPLES)]
    first, second = (scorer.scores([with_end(ids) for ids in rows], repeated) for rows in (sampled, greedy))
    return first - second


def sentence(base: list[int], rng: np.random.Generator) -> list[int]:
    """The base with a third of its words replaced, some dropped, ended and padded."""
    words = [int(rng.zipf(1.3)) % VOCABULARY + 1 if rng.random() < 0.33 else word for word in base]
    kept = [word for word in words if rng.random() < 0.95][:PLACES]
    return kept + [0] * (PLACES - len(kept))


def bases(count: int, rng: np.random.Generator) -> list[list[int]]:
    lengths = np.clip(rng.normal(10.5, 2, count).round().astype(int), 7, PLACES)
    return [(rng.zipf(1.3, length) % VOCABULARY + 1).tolist() for length in lengths]


def make_batch(rng: np.random.Generator) -> Batch:
    pictures = bases(PICTURES, rng)
    references = [[sentence(base, rng) for _ in range(REFERENCES)] for base in pictures]
    sampled = [sentence(base, rng) for base in pictures for _ in range(SAMPLES)]
    greedy = [row for base in pictures for row in [sentence(base, rng)] * SAMPLES]
    return references, sampled, greedy


def main() -> None:
    rng = np.random.default_rng(0)
    counted = DocumentFrequencies.count(
        [[with_end(sentence(base, rng)) for _ in range(REFERENCES)] for base in bases(COUNTED_PICTURES, rng)]
    )
    texts = defaultdict(float, {tuple(map(str, ngram)): float(times) for ngram, times in counted.counts.items()})
    log_pictures = np.log(float(counted.pictures))
    batches = [make_batch(rng) for _ in range(BATCHES)]
    scorer = CiderD(counted)
    times: dict[str, list[float]] = {"public": [], "fresh": [], "again": []}
    difference = 0.0
    for batch in batches:
        results = {}
        for name in times:
            start = time.perf_counter()
            results[name] = (
                public_rewards(batch, texts, log_pictures) if name == "public" else our_rewards(batch, scorer)
            )
            times[name].append(time.perf_counter() - start)
        difference = max(difference, *(float(np.abs(results[n] - results["public"]).max()) for n in ("fresh", "again")))
    public, fresh, again = (statistics.median(times[name]) for name in times)
    print(
        f"CIDEr-D rewards, {PICTURES * SAMPLES} captions and their baselines: {public / fresh:.1f}x, pictures seen before "
        f"{public / again:.1f}x  (public {public * 1e3:.1f} ms, ours {fresh * 1e3:.1f} and {again * 1e3:.1f} ms a batch, "
        f"largest difference {difference:.1e})"
    )


if __name__ == "__main__":
    main()
