"""Linear classification by mini-batch stochastic gradient descent."""

from dataclasses import KW_ONLY

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if

from fastsvm._compiled.threads import one_threaded_blas
from fastsvm.estimators.fitting.documentation import Learning, documented, documented_by, parametrised
from fastsvm.estimators.fitting.session import drafted
from fastsvm.estimators.fitting.validation import (
    Attributes,
    Column,
    Rule,
    Samples,
    TrainingSet,
    check_training_set,
    class_weights,
    encode,
    number,
)
from fastsvm.estimators.linear.base_sgd import BaseSGD
from fastsvm.estimators.linear.prediction import LinearClassifier, LinearProbabilities
from fastsvm.estimators.linear.training_task import Task, loss_of, loss_rule, task_of_classes
from fastsvm.losses import LOSSES, Loss, provides_probabilities
from fastsvm.sources import Source


def _has_probabilities(estimator: BaseEstimator) -> bool:
    """Return whether the loss defines probabilities."""
    loss = estimator.loss
    if provides_probabilities(LOSSES.get(loss) if isinstance(loss, str) else type(loss)):
        return True
    raise AttributeError(f"probability estimates are not available for loss={estimator.loss!r}")


@documented
@parametrised
class SGDClassifier(LinearClassifier, BaseSGD):
    """Linear classification by mini-batch stochastic gradient descent, from memory or from an HDF5 file.

    Names and meanings are those of `sklearn.linear_model.SGDClassifier` where it has them. Different are the defaults
    of `learning_rate` and `average`, steps on batches of rows, losses of all classes at once, and that weights of rows
    count relatively: a row of weight 2 is the same as two rows.

    Parameters
    ----------
    loss : str or a loss object, default="hinge"
        Of a class against the rest: "hinge", "squared_hinge", "log_loss", "modified_huber", "perceptron"; of labels ±1
        as numbers: "squared_error", "huber", "epsilon_insensitive", "squared_epsilon_insensitive". Of all classes at
        once: "weston_watkins" and "crammer_singer" (multiclass hinges), "softmax".
        A loss object is one that `fastsvm.losses.register_loss` registered. `fastsvm.save` refuses models with it.
    margin : float, default=1.0
        Margin Δ of the hinges, but for the squared one.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsvm import SGDClassifier
    >>> X = np.array([[-1.0, -1.0], [-2.0, -1.0], [1.0, 1.0], [2.0, 1.0]])
    >>> y = np.array(["left", "left", "right", "right"])
    >>> SGDClassifier(random_state=0).fit(X, y).predict([[-0.8, -1.0]])
    array(['left'], dtype='<U5')
    """

    loss: str = "hinge"
    _: KW_ONLY
    margin: float = 1.0
    n_jobs: int | None = None
    class_weight: dict | str | None = None

    def _own_rules(self) -> dict[str, Rule]:
        return {"loss": loss_rule("labels", "classes", "numbers"), "margin": number(above=0)}

    @documented_by(Learning)
    @drafted
    @one_threaded_blas
    def partial_fit(
        self, X: Samples, y: Column = None, classes: Column = None, sample_weight: Column = None
    ) -> "SGDClassifier":
        """Run one more epoch, on these samples.

        The average and the learning rate continue. The rate "auto" is that of the first samples, and assumes epochs of
        at least 1,000 steps. There is no test of convergence, no validation set, and callbacks are not called.

        Parameters
        ----------
        classes : array-like of shape (n_classes,) or None
            All labels there will be; needed in the first call.
        """
        self._check_parameters()
        first = not hasattr(self, "classes_")
        if first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        every = np.unique(classes) if first else self.classes_
        if classes is not None and not np.array_equal(np.unique(classes), every):
            raise ValueError(f"classes={classes!r} is not the same as on the first call of partial_fit, {every!r}.")
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight 'balanced' is not supported by partial_fit, which does not know all rows. Compute the "
                "weights with sklearn.utils.compute_class_weight and pass them as a dict."
            )
        data = check_training_set(self, X, y, sample_weight, reset=first)
        places = np.searchsorted(every, data.y)
        unknown = data.y[every[np.minimum(places, len(every) - 1)] != data.y]
        if len(unknown):
            unknown = np.unique(unknown)
            raise ValueError(f"y contains labels that are not in classes: {unknown.tolist()}; {every.tolist()} are.")
        labels = np.where(data.weight > 0, places, -1)
        source = self._scaled(data.source, data.weight, again=not first)
        self._partial_fit(self._task_of(source, labels, data.weight, every), {"classes_": every})
        return self

    def _task(self, data: TrainingSet) -> tuple[Task, Attributes]:
        classes, labels = encode(data.y, data.weight)
        source = self._scaled(data.source, data.weight)
        return self._task_of(source, labels, data.weight, classes), {"classes_": classes}

    def _task_of(self, source: Source, labels: np.ndarray, weight: np.ndarray, classes: np.ndarray) -> Task:
        factors = class_weights(self.class_weight, classes, labels, weight)
        return task_of_classes(source, labels, weight, factors, loss_of(self.loss).of_classes)

    def _chosen_loss(self) -> Loss:
        return loss_of(self.loss)

    predict_proba = available_if(_has_probabilities)(LinearProbabilities.predict_proba)
    predict_log_proba = available_if(_has_probabilities)(LinearProbabilities.predict_log_proba)
