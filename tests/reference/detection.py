"""Box operators as their definitions read: loops over boxes, cells and samples in plain Python."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def overlap(a: Sequence[float], b: Sequence[float]) -> float:
    """Intersection over union; 0 where there is no area at all."""
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - width * height
    return width * height / union if union else 0.0


def nms(boxes: Tensor, scores: Tensor, threshold: float) -> list[int]:
    """Walk from the best to the worst; keep a box unless it overlaps one that was kept."""
    kept: list[int] = []
    rows = boxes.tolist()
    for i in sorted(range(len(rows)), key=lambda i: -float(scores[i])):
        if all(overlap(rows[i], rows[k]) <= threshold for k in kept):
            kept.append(i)
    return kept


def sample(feature_map: Tensor, y: float, x: float) -> Tensor:
    """Bilinear value of a map `c height width` at a point; zero more than one place outside."""
    _, height, width = feature_map.shape
    if y < -1 or y > height or x < -1 or x > width:
        return torch.zeros_like(feature_map[:, 0, 0])
    y, x = min(max(y, 0.0), height - 1.0), min(max(x, 0.0), width - 1.0)
    total = torch.zeros_like(feature_map[:, 0, 0])
    for row in range(height):
        for column in range(width):
            nearness = max(0.0, 1 - abs(row - y)) * max(0.0, 1 - abs(column - x))
            if nearness:
                total = total + nearness * feature_map[:, row, column]
    return total


def roi_align(maps: Tensor, rois: Tensor, scale: float, rows: int, columns: int, ratio: int, aligned: bool) -> Tensor:
    """Each cell of each box: the mean of its samples."""
    pooled = maps.new_zeros(len(rois), maps.shape[1], rows, columns)
    for i, (picture, *corners) in enumerate(rois.tolist()):
        x1, y1, x2, y2 = (corner * scale - (0.5 if aligned else 0.0) for corner in corners)
        width, height = x2 - x1, y2 - y1
        if not aligned:
            width, height = max(width, 1.0), max(height, 1.0)
        across = ratio if ratio > 0 else math.ceil(width / columns)
        down = ratio if ratio > 0 else math.ceil(height / rows)
        for row in range(rows):
            for column in range(columns):
                values = [
                    sample(
                        maps[int(picture)],
                        y1 + (row + (v + 0.5) / down) * height / rows,
                        x1 + (column + (u + 0.5) / across) * width / columns,
                    )
                    for v in range(down)
                    for u in range(across)
                ]
                if values:
                    pooled[i, :, row, column] = torch.stack(values).mean(0)
    return pooled
