"""scikit-learn: the logistic regression fitted anew after every outcome, from the last fit on.

Its answer's reward is the sum of the final logits of all pairs: the optimum is unique, so it
must be ours.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks.peers.replay import Outcome
from benchmarks.peers.tries import Tries, answer


def learn(tries: Tries) -> Outcome:
    """Score the servers, then fit all outcomes so far, as soon as both kinds were seen."""
    features, server = np.array(tries.features), np.array(tries.server)
    rows = features[np.arange(len(server)), server]
    outcome = np.array(tries.departed)
    start = time.process_time()
    model = LogisticRegression(
        C=1.0 / tries.ridge, fit_intercept=False, solver="newton-cholesky", tol=1e-8
    )
    model.set_params(warm_start=True)
    fitted = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in range(len(server)):
            if fitted:
                model.decision_function(features[n])
            seen = outcome[: n + 1]
            if seen.min() < seen.max():
                model.fit(rows[: n + 1], seen)
                fitted += 1
    seconds = time.process_time() - start
    logits = float((features @ model.coef_[0]).sum())
    return Outcome(logits, len(server), seconds)


if __name__ == "__main__":
    answer(learn)
