"""What happens to each case? Methods score its inputs, tests score the methods."""

from collections.abc import Iterable, Sequence

from lit_attn.attribution.by_inputs import blank_out
from lit_attn.attribution.explain import explain_subject
from lit_attn.attribution.faithfulness import Value, against_cause, correlated, perturbed
from lit_attn.attribution.scores import Scores
from lit_attn.attribution.subject import Subject
from lit_attn.explain.case import Case
from lit_attn.explain.outcome import Outcome


def explain_cases(cases: Iterable[Case], methods: Sequence[str], *, faithfulness: bool = True) -> Outcome:
    """All cases by all methods, with the tests of each."""
    outcome = Outcome()
    for case in cases:
        scores = explain_subject(case.subject, methods)
        outcome.add(case, scores, tested(case.subject, scores) if faithfulness else [])
    return outcome


def tested(subject: Subject, scores: dict[str, Scores]) -> list[Value]:
    """All that is known of the faithfulness of some scores."""
    blanked = scores.get("blank_out") or blank_out(subject)
    return [*against_cause(subject, scores), *perturbed(subject, scores), *correlated(subject, scores, blanked)]
