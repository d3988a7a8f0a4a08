"""contextualbandits: a logistic regression a server (of its features), fitted anew every round."""

from __future__ import annotations

import time
import warnings

import numpy as np
from contextualbandits.online import SeparateClassifiers
from sklearn.linear_model import LogisticRegression

from benchmarks.peers.replay import Outcome
from benchmarks.peers.tries import Tries, answer


def learn(tries: Tries) -> Outcome:
    """Score the servers, then fit all outcomes so far."""
    features, server = np.array(tries.features), np.array(tries.server)
    rows = features[np.arange(len(server)), server]
    outcome = np.array(tries.departed, dtype=np.float64)
    start = time.process_time()
    base = LogisticRegression(C=1.0 / tries.ridge, solver="lbfgs", warm_start=True)
    model = SeparateClassifiers(base, nchoices=features.shape[1], random_state=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in range(len(server)):
            if n:
                model.decision_function(rows[n : n + 1])
            model.fit(rows[: n + 1], server[: n + 1], outcome[: n + 1])
    return Outcome(0.0, len(server), time.process_time() - start)


if __name__ == "__main__":
    answer(learn)
