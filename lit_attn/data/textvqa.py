"""What is written in the picture? TextVQA (Singh et al. 2019) in its public files, and questions of the user's own.

Questions come from MMF's imdb files or from the authors' JSON, object and OCR features from LMDB or any store of regions; the
two OCR systems of the published numbers are inside the imdb files. Train and validation pictures of TextVQA share a folder
of Open Images, so both are `train/<image id>` in the LMDB.
"""

from functools import cached_property
from pathlib import Path

from lit_attn.checkpoint import SUFFIXES as WEIGHTS
from lit_attn.checkpoint import read_weights
from lit_attn.data.answer_words import AnswerWords
from lit_attn.data.grammar import Grammar
from lit_attn.data.question_tokens import QuestionTokens, VocabularyTokens, WordPieces
from lit_attn.data.region_labels import LabelNames
from lit_attn.data.regions import ATTRIBUTE_THRESHOLD
from lit_attn.data.stored_reading import StoredReading
from lit_attn.data.vocab import Vocabulary, tokenize
from lit_attn.errors import UserError
from lit_attn.language.phrases import Exclude, Kind

MAX_STEPS = 12
"""Words of an answer in published models, its end among them."""


class TextVqa(StoredReading):
    """TextVQA, or any data set in its files.

    Args:
        train, val, test: Files of questions: imdb `.npy`, TextVQA's `.json`, or what `question_files` reads. Predict uses `test`.
        regions: Features of objects: an LMDB, or whatever `region_store.open_regions` takes.
        ocr_regions: Features at the OCR tokens, in the order of the tokens. Without them they are zeros.
        ocr: `ocr.jsonl` or its folder, for questions that come without OCR tokens.
        answer_words: MMF's list of answer words, or weights that hold theirs. Without it, the `num_answer_words` most
            frequent ones of training.
        tokenizer: Folder or hub name of a BERT tokenizer; wins over `vocabulary`.
        vocabulary: A vocabulary JSON, or weights that hold their words. Without it, the words that occur at least
            `min_count` times in the training questions.
        images: The folder of the pictures, to draw on.
        object_names, attribute_names: Lists of the 1600 objects and 400 attributes, for regions with label ids.
        attribute_threshold: An attribute is part of what a region is called above this confidence.
        annotate: Where grammar for probes comes from: a spaCy pipeline such as `en_core_web_sm`, a `.conllu` or `.jsonl` file.
        link: Which regions noun phrases name, by a linker of `lit_attn.data.linking.named`: `lemma`, `glove_add`, `sentence` …
        phrases: Which noun phrases: `nested`, or `base`, which end at their noun.
        exclude: Which of them are left out as places of the picture: `exact`, `contains` or `nothing`.
        max_question_tokens, max_objects, max_ocr, max_steps, word_vectors, mark_duplicates: See `ReadingData`.
        seed: Of the order of training and of the path that an answer is taught by.
    """

    def __init__(
        self,
        regions: str,
        train: str | None = None,
        val: str | None = None,
        test: str | None = None,
        ocr_regions: str | None = None,
        ocr: str | None = None,
        answer_words: str | None = None,
        num_answer_words: int = 5000,
        tokenizer: str | None = None,
        vocabulary: str | None = None,
        min_count: int = 2,
        images: str | None = None,
        max_question_tokens: int = 20,
        max_objects: int = 100,
        max_ocr: int = 50,
        max_steps: int = MAX_STEPS,
        word_vectors: str | None = None,
        mark_duplicates: bool = False,
        batch_size: int = 128,
        eval_batch_size: int = 128,
        num_workers: int = 0,
        seed: int = 0,
        object_names: str | None = None,
        attribute_names: str | None = None,
        attribute_threshold: float = ATTRIBUTE_THRESHOLD,
        annotate: str | None = None,
        link: str | None = None,
        phrases: Kind = "nested",
        exclude: Exclude = "exact",
    ) -> None:
        super().__init__(
            regions,
            ocr_regions,
            ocr,
            images,
            max_question_tokens,
            max_objects,
            max_ocr,
            max_steps,
            word_vectors,
            mark_duplicates,
            batch_size,
            eval_batch_size,
            num_workers,
            seed,
            LabelNames.read(object_names, attribute_names, attribute_threshold),
            Grammar(annotate, link, phrases, exclude),
        )
        self.files = {"train": train, "val": val, "test": test}
        self.answer_words_path = None if answer_words is None else Path(answer_words)
        self.num_answer_words = num_answer_words
        self.tokenizer = tokenizer
        self.vocabulary_path = None if vocabulary is None else Path(vocabulary)
        self.min_count = min_count

    def question_file(self, stage: str) -> Path:
        split = "test" if stage == "predict" else stage
        file = self.files[split]
        if file is None:
            raise UserError(f"data.{split} is not set. Name the file with the questions for {stage}.")
        return Path(file)

    @cached_property
    def answer_words(self) -> AnswerWords:
        if self.answer_words_path is not None:
            return AnswerWords.read(self.answer_words_path)
        answers = (answer for question in self.asked("train") for answer in question.answers)
        return AnswerWords.most_common(answers, self.num_answer_words)

    @cached_property
    def vocabulary(self) -> QuestionTokens:
        if self.tokenizer is not None:
            return WordPieces(self.tokenizer)
        if self.vocabulary_path is not None:
            return VocabularyTokens.read(self.vocabulary_path)
        words = (tokenize(question.text) for question in self.asked("train"))
        return VocabularyTokens(Vocabulary.build(words, self.min_count))


class OwnQuestions(StoredReading):
    """The user's questions about the user's pictures, for predict.

    Args:
        questions: `.jsonl` or `.csv` with `picture` and `question`.
        regions: What `lit-attn extract regions` wrote.
        ocr: What `lit-attn extract ocr` wrote.
        answer_words: The answer words of the model: its weights, or MMF's list. The weights that a command names serve.
        vocabulary: The question words of a model without a tokenizer, as `answer_words`: its weights, or a vocabulary JSON.
        tokenizer: Folder or hub name of the model's BERT tokenizer.
        max_steps: Words of an answer; by default as many as the weights of `answer_words` were trained with, or 12.
        ocr_regions, images, max_question_tokens, max_objects, max_ocr, word_vectors: See `TextVqa`.
    """

    def __init__(
        self,
        questions: str,
        regions: str,
        ocr: str,
        answer_words: str | None = None,
        vocabulary: str | None = None,
        tokenizer: str | None = None,
        ocr_regions: str | None = None,
        images: str | None = None,
        max_question_tokens: int = 20,
        max_objects: int = 100,
        max_ocr: int = 50,
        max_steps: int | None = None,
        word_vectors: str | None = None,
        eval_batch_size: int = 32,
        num_workers: int = 0,
    ) -> None:
        super().__init__(
            regions,
            ocr_regions,
            ocr,
            images,
            max_question_tokens,
            max_objects,
            max_ocr,
            _trained_steps(answer_words) if max_steps is None else max_steps,
            word_vectors,
            mark_duplicates=False,
            batch_size=1,
            eval_batch_size=eval_batch_size,
            num_workers=num_workers,
            seed=0,
        )
        self.questions = Path(questions)
        self.answer_words_path = answer_words
        self.vocabulary_path = vocabulary
        self.tokenizer = tokenizer

    def question_file(self, stage: str) -> Path:
        if stage != "predict":
            raise UserError(
                f"data.questions {self.questions} has questions without answers, which {stage} needs. Use it with predict, "
                "or name a data set with answers."
            )
        return self.questions

    @cached_property
    def answer_words(self) -> AnswerWords:
        if self.answer_words_path is None:
            raise UserError(
                "data.answer_words is not set. Name the model's weights, or the file with its answer words."
            )
        return AnswerWords.read(Path(self.answer_words_path))

    @cached_property
    def vocabulary(self) -> QuestionTokens:
        if self.tokenizer is not None:
            return WordPieces(self.tokenizer)
        if self.vocabulary_path is None:
            raise UserError(
                "Neither data.tokenizer nor data.vocabulary is set. Name what the model reads questions with."
            )
        return VocabularyTokens.read(Path(self.vocabulary_path))


def _trained_steps(answer_words: str | None) -> int:
    if answer_words is None or Path(answer_words).suffix not in WEIGHTS:
        return MAX_STEPS
    return int(read_weights(Path(answer_words)).hyperparameters.get("max_steps", MAX_STEPS))
