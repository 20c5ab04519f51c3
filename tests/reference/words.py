"""Slow, obvious versions of the probes of words: loops over texts, words and sources in plain Python."""

from itertools import pairwise


def rows_of(record, batch, align):
    """Text, word, row of the record, for every word that exists."""
    shift = 0 if record.site.predicts and align == "predict" else 1
    for c, annotation in enumerate(batch.annotations):
        for i in range(int(batch.token_mask[c].sum()) - 2):
            yield c, i, i + shift, annotation


def weight(record, c, h, row, column) -> float:
    """Of a head; head -1 is even attention over what the row may see."""
    mask = record.key_mask[c, row if record.key_mask.shape[1] > 1 else 0]
    if h < 0:
        return float(mask[column]) / float(mask.sum())
    return float(record.weights[c, h, row, column])


def on_words(record, batch, align, h, c, row, words) -> float:
    return sum(weight(record, c, h, row, w + 1) for w in words)


def part_of_speech(record, batch, align, h, tag) -> float:
    part = whole = 0.0
    for c, _, row, annotation in rows_of(record, batch, align):
        n = int(batch.token_mask[c].sum()) - 2
        for j in range(n):
            if j + 1 < record.weights.shape[-1]:
                w = weight(record, c, h, row, j + 1)
                part += w * (annotation.pos[j] == tag)
                whole += w
    return part / whole


def dependency(record, batch, align, h, label, head_pos=None, everything=False) -> float:
    part = whole = 0.0
    for c, i, row, annotation in rows_of(record, batch, align):
        n = int(batch.token_mask[c].sum()) - 2
        sources = []
        for d in range(n):
            head = annotation.heads[d]
            if annotation.deps[d] != label or head >= n:
                continue
            later, earlier = (head, d) if label in ("det", "compound", "nummod") else (d, head)
            if later == i and earlier < i and (head_pos is None or annotation.pos[head] == head_pos):
                sources.append(earlier)
        part += on_words(record, batch, align, h, c, row, sources)
        if sources or everything:
            whole += on_words(
                record, batch, align, h, c, row, [j for j in range(n) if j + 1 < record.weights.shape[-1]]
            )
    return part / whole


def spans(record, batch, align, h, items, micro) -> float:
    """Items: text, words, columns of the record."""
    found = []
    shift = 0 if record.site.predicts and align == "predict" else 1
    for c, words, columns in items:
        part = sum(weight(record, c, h, i + shift, k) for i in words for k in columns)
        whole = sum(weight(record, c, h, i + shift, k) for i in words for k in range(record.weights.shape[-1]))
        found.append((part, whole))
    if micro:
        return sum(part for part, _ in found) / sum(whole for _, whole in found)
    return sum(part / whole for part, whole in found) / len(found)


def regions_of(batch, c, objects):
    shown = batch.region_object[batch.owner[c]].tolist()
    return [r for r, thing in enumerate(shown) if thing in objects]


def cut(batch, c, span):
    return range(span[0], min(span[1], int(batch.token_mask[c].sum()) - 2))


def phrases(batch, swapped=False):
    for c, annotation in enumerate(batch.annotations):
        for p in annotation.phrases:
            for q in annotation.phrases:
                wanted = not set(p.objects) & set(q.objects) if swapped else p is q
                own, regions = regions_of(batch, c, p.objects), regions_of(batch, c, q.objects)
                if wanted and own and regions and len(cut(batch, c, p.span)) and len(cut(batch, c, q.span)):
                    yield c, cut(batch, c, p.span), regions


def relations(batch, source, targets, regions):
    for c, annotation in enumerate(batch.annotations):
        n = int(batch.token_mask[c].sum()) - 2
        for t in annotation.triples:
            order = [t.target, t.relation, t.landmark]
            if max(end for _, end in order) > n or (not regions and any(a[1] > b[0] for a, b in pairwise(order))):
                continue
            ends = [getattr(t, name) for name in targets]
            if regions:
                objects = next(p.objects for p in annotation.phrases if p.span == ends[0])
                columns = regions_of(batch, c, objects)
            else:
                columns = [w + 1 for span in ends for w in range(*span)]
            if columns:
                yield c, range(*getattr(t, source)), columns


def object_words(record, batch, align, h, tags, start, micro) -> float:
    found = []
    for c, _, row, annotation in rows_of(record, batch, align):
        n = int(batch.token_mask[c].sum()) - 2
        seen = [j for j in range(n) if j + 1 < record.weights.shape[-1] and weight(record, c, -1, row, j + 1) > 0]
        if not seen:
            continue
        part = on_words(record, batch, align, h, c, row, [j for j in seen if annotation.pos[j] in tags])
        whole = on_words(record, batch, align, h, c, row, seen) + (weight(record, c, h, row, 0) if start else 0.0)
        found.append((part, whole))
    if micro:
        return sum(part for part, _ in found) / sum(whole for _, whole in found)
    return sum(part / whole for part, whole in found) / len(found)
