"""Which word does a word piece belong to? By the characters that both cover.

Works with any tokenizer that reports offsets (GPT-2, BERT, SentencePiece …). A piece may carry the blank before its word, or be
that blank alone; a character may be cut into several pieces of bytes, as emoji are, which then report the same offsets. A piece
that covers no word (`[CLS]`, START) belongs to none. What the pieces' attention adds up to is the business of `ops.pieces`.
"""

from collections.abc import Sequence

from lit_attn.types import Span

NO_WORD = -1


def word_offsets(tokens: Sequence[str]) -> list[Span]:
    """Where each token lies in the tokens joined by single blanks, in characters."""
    spans, at = [], 0
    for token in tokens:
        spans.append((at, at + len(token)))
        at += len(token) + 1
    return spans


def words_of_pieces(pieces: Sequence[Span], words: Sequence[Span]) -> list[int]:
    """For each piece the number of the word that it shares most characters with, the first of equals; for a blank the word that
    begins behind it; else NO_WORD."""
    found = []
    begins = {a: i for i, (a, b) in enumerate(words) if a < b}
    for start, end in pieces:
        shared = [min(end, b) - max(start, a) for a, b in words]
        best = max(range(len(words)), key=shared.__getitem__, default=NO_WORD)
        behind = begins.get(end, NO_WORD) if end > 0 else NO_WORD
        found.append(best if best != NO_WORD and shared[best] > 0 else behind)
    return found
