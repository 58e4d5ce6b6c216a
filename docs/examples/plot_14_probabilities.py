"""
Probabilities, and what class weights do to them
================================================

A support vector machine says on which side of its boundary a sample is, and how far. `CalibratedClassifier` learns from
samples that its folds have not seen how often each distance is right. A reliability diagram shows whether that holds
for new samples: of those that get the probability p of the second class, a share of p should be of that class.

A tenth of these samples are of the second class, and the classes overlap.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.calibration import CalibrationDisplay
from sklearn.datasets import make_classification
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import train_test_split

from fastsvm import SVC, CalibratedClassifier

shares = {"weights": [0.9], "flip_y": 0.05, "class_sep": 0.6}
X, y = make_classification(12_000, n_features=8, n_informative=5, random_state=3, **shares)
X, X_test, y, y_test = train_test_split(X, y, train_size=4_000, random_state=0)

# %%
# Decision values that are taken for log-odds are no probabilities: the hinge loss knows a margin, and no shares. The
# curve of the calibrated model is near the diagonal.

model = CalibratedClassifier(SVC(C=1, gamma=0.1)).fit(X, y)
raw = 1 / (1 + np.exp(-model.estimator_.decision_function(X_test)))
calibrated = model.predict_proba(X_test)[:, 1]

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5))
for name, probability in {"decision values in a logistic function": raw, "calibrated": calibrated}.items():
    CalibrationDisplay.from_predictions(y_test, probability, n_bins=12, strategy="quantile", name=name, ax=left)
    print(
        f"{name}: Brier score {brier_score_loss(y_test, probability):.4f}, log loss {log_loss(y_test, probability):.4f}"
    )
left.set_title("4,000 samples for the fit, 8,000 for the test")

# %%
# With `class_weight="balanced"`, the machine is fitted as if both classes were equally frequent, and so are the
# probabilities, if the calibrators get the same weights as the fit: `sample_weight` is for both. `class_weight` is for
# the fit alone. The calibration then undoes what the weights did to the probabilities, and the most probable class is
# the frequent one again. Who wants the rare class found more often lowers the threshold, from 1/2 to what an error
# costs, and has probabilities that are true.

balanced = SVC(C=1, gamma=0.1, class_weight="balanced")
factors = np.where(y == 1, np.mean(y == 0), np.mean(y == 1))
models = {
    'class_weight="balanced"': CalibratedClassifier(balanced).fit(X, y),
    "sample_weight of both classes alike": CalibratedClassifier(SVC(C=10, gamma=0.1)).fit(X, y, factors),
}
for name, each in models.items():
    probability = each.predict_proba(X_test)[:, 1]
    CalibrationDisplay.from_predictions(y_test, probability, n_bins=12, strategy="quantile", name=name, ax=right)
    found, by_machine = each.predict(X_test).mean(), each.estimator_.predict(X_test).mean()
    print(f"{name}: {found:.1%} are predicted to be of the second class, by the machine alone {by_machine:.1%}")
for ax in (left, right):
    ax.legend(loc="upper left")
right.set_title("Weights of the classes")
plt.tight_layout()
plt.show()
