"""What must be made of public files before others can use them? Labels of captions, annotations of
their grammar, and links of their noun phrases to detections."""

import argparse
import sys
from pathlib import Path

from lit_attn.cli.arguments import Parser
from lit_attn.cli.counting import counted
from lit_attn.data.caption_files import read_captions
from lit_attn.data.labels import MAX_WORDS, MIN_COUNT, build_words, prepare_labels, write_labels
from lit_attn.errors import UserError


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="lit-attn prepare", description="Prepare public files.")
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="labels|annotations|links")
    labels = kinds.add_parser(
        "labels",
        help="captions as ids: cocotalk.json and cocotalk_label.h5",
        description="Writes cocotalk.json and cocotalk_label.h5 for the captions of a data set.",
    )
    labels.add_argument("captions", type=Path, help="JSON in Karpathy's or COCO's layout")
    labels.add_argument("--out", type=Path, required=True, help="folder to write into")
    labels.add_argument("--min-count", type=int, default=MIN_COUNT, help="rarer words become UNK (default %(default)s)")
    labels.add_argument("--max-words", type=int, default=MAX_WORDS, help="captions are cut there (default %(default)s)")
    grammar = kinds.add_parser(
        "annotations",
        help="tags, lemmas, trees, noun phrases and spatial triples of captions",
        description="Annotates the captions of a data set once, and keeps the result beside it.",
    )
    grammar.add_argument(
        "captions", type=Path, help="JSON in Karpathy's or COCO's layout, or the folder of Tell-Me-More"
    )
    grammar.add_argument("--pipeline", default="en_core_web_sm", help="a spaCy pipeline (default %(default)s)")
    grammar.add_argument("--split", help="only this split: train, restval, val or test")
    grammar.add_argument("--processes", type=int, help="how many parse at once (default: as many as pay)")
    grammar.add_argument("--out", type=Path, help="write a .conllu file, too, to be corrected by hand")
    kinds.add_parser("links", help="which detections the noun phrases of captions name", add_help=False)
    return parser


def run(argv: list[str]) -> int:
    """`lit-attn prepare …`."""
    if argv[:1] == ["links"]:  # its options need torch
        from lit_attn.cli.prepare_links import run as link

        return link(argv[1:])
    try:
        given = _parser().parse_args(argv)
    except SystemExit as finished:  # --help
        return int(finished.code or 0)
    if given.kind == "annotations":
        return _annotations(given)
    for name, value in (("--min-count", given.min_count), ("--max-words", given.max_words)):
        if value < 1:
            raise UserError(f"{name} must be at least 1, got {value}.")
    pictures = read_captions(given.captions)
    labels = prepare_labels(pictures, build_words(pictures, given.min_count), given.max_words)
    write_labels(labels, pictures, given.out)
    numbers = {"picture": len(labels), "caption": len(labels.labels), "word": len(labels.words.words)}
    sys.stdout.write(f"{given.out}: {', '.join(counted(number, what) for what, number in numbers.items())}\n")
    return 0


def _annotations(given: argparse.Namespace) -> int:
    from lit_attn.data.annotate.conllu import write_conllu
    from lit_attn.data.annotate.source import annotate
    from lit_attn.data.tell_me_more import read_tell_me_more

    if given.processes is not None and given.processes < 1:
        raise UserError(f"--processes must be at least 1, got {given.processes}.")
    folder = given.captions.is_dir()
    pictures = read_tell_me_more(given.captions) if folder else read_captions(given.captions)
    texts = {
        f"{picture.stem}-{i}": tokens
        for picture in pictures
        if given.split in (None, picture.split)
        for i, tokens in enumerate(picture.captions)
    }
    if not texts:
        has = ", ".join(sorted({picture.split for picture in pictures}))
        raise UserError(f"{given.captions} has no captions of the split {given.split!r}; it has {has}.")
    place = given.captions / "sequences.csv" if folder else given.captions
    found = annotate(texts, given.pipeline, place, processes=given.processes)
    if given.out is not None:
        write_conllu(given.out, found)
    phrases, triples = sum(len(a.phrases) for a in found.values()), sum(len(a.triples) for a in found.values())
    words = sum(map(len, found.values()))
    numbers = {"text": len(found), "token": words, "noun phrase": phrases, "spatial triple": triples}
    sys.stdout.write(f"{', '.join(counted(number, what) for what, number in numbers.items())}\n")
    return 0
