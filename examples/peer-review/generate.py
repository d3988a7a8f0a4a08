"""Write scores.csv and conflicts.csv of this example again (python generate.py).

Papers and reviewers have weights on six topics; the score of a pair is the cosine of their
weights, as in the tf-idf similarities that journals use, times the reviewer's experience. A
few senior reviewers know several topics well: everybody's best free choice, so Greedy keeps
them busy with papers that others could review nearly as well.
"""

import csv
import math
import random
from pathlib import Path

TOPICS = ("vision", "language", "learning theory", "robotics", "causality", "optimization")
HERE = Path(__file__).parent
SENIORS = 6


def unit(vector: list[float]) -> list[float]:
    """The vector divided by its length."""
    length = math.sqrt(sum(x * x for x in vector))
    return [x / length for x in vector]


def main() -> None:
    """Draw topics with a fixed seed and write both files."""
    draw = random.Random(2026)
    papers, reviewers = {}, {}
    for i in range(12):
        weights = [0.05 * draw.random() for _ in TOPICS]
        weights[i % len(TOPICS)] += 1.0
        if i >= len(TOPICS):  # half of the papers lie between two topics
            weights[draw.randrange(len(TOPICS))] += 0.8
        papers[f"paper-{i + 1:02d}"] = unit(weights)
    for i in range(24):
        senior = i < SENIORS
        weights = [0.1 * draw.random() for _ in TOPICS]
        for topic in draw.sample(range(len(TOPICS)), 3 if senior else 1):
            weights[topic] += 0.7 + 0.3 * draw.random()
        experience = 1.0 if senior else 0.35 + 0.4 * draw.random()
        reviewers[f"reviewer-{i + 1:02d}"] = [experience * x for x in unit(weights)]
    with open(HERE / "scores.csv", "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(("task", "server", "score"))
        for paper, p in papers.items():
            for reviewer, r in reviewers.items():
                score = sum(a * b for a, b in zip(p, r, strict=True))
                out.writerow((paper, reviewer, f"{score:.3f}"))
    with open(HERE / "conflicts.csv", "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(("task", "server", "constraint"))
        for paper in papers:
            out.writerow((paper, draw.choice(list(reviewers)), -1))


if __name__ == "__main__":
    main()
