"""Parameters of the estimators as options: their values, defaults and meanings."""

import json
import re
from inspect import getdoc, signature
from typing import Any

from fastsvm.estimators import ESTIMATORS

__all__ = ["meaning", "parameters", "value"]

_DEFAULT = re.compile(r",?\s*(default=.*|optional)$")


def parameters() -> dict[str, dict[str, Any]]:
    """Return the defaults of all parameters of all models, by parameter and model."""
    found: dict[str, dict[str, Any]] = {}
    for model, kind in ESTIMATORS.items():
        for name, parameter in signature(kind).parameters.items():
            if name not in ("warm_start", "random_state", "n_jobs"):
                found.setdefault(name, {})[model] = parameter.default
    return found


def meaning(model: str, name: str) -> str:
    """Return what a parameter of an estimator means: the first sentence of its docstring, and its type or choices."""
    lines = (getdoc(ESTIMATORS[model]) or "").splitlines()
    begin = next((k for k, line in enumerate(lines) if _names(line, name)), None)
    if begin is None:
        return ""
    kind = _DEFAULT.sub("", lines[begin].partition(" : ")[2])
    text: list[str] = []
    for line in lines[begin + 1 :]:
        if not line.startswith("    "):
            break
        text.append(line.strip())
    sentence = re.split(r"(?<=[.:])\s", " ".join(text), maxsplit=1)[0].rstrip(".:")
    return f"{sentence[:1].lower()}{sentence[1:]}; {kind}".replace("%", "%%")


def _names(line: str, name: str) -> bool:
    """Return whether a line of a docstring begins the description of a parameter; several may share one."""
    head, colon, _ = line.partition(" : ")
    return bool(colon) and not line.startswith(" ") and name in head.split(", ")


def value(text: str) -> Any:
    """Return the value that text of the command line stands for: None, a number, a JSON value or the text itself."""
    if text.lower() == "none":
        return None
    try:
        number = float(text)
        return int(number) if number.is_integer() else number
    except ValueError:
        pass
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
