"""Reports as text or as JSON."""

import json
from typing import Any

from fastsvm.jobs.visible import visible

__all__ = ["show"]


def show(report: dict[str, Any], as_json: bool) -> None:
    """Print a report."""
    if as_json:
        print(json.dumps(report, default=str))
        return
    width = max((len(name) for name in report), default=0)
    for name, value in report.items():
        if value is None or value == "" or value == [] or value == {}:
            continue
        lines = _lines(value)
        print(f"{name.replace('_', ' '):{width}}  {visible(lines[0])}")
        for line in lines[1:]:
            print(f"{'':{width}}  {visible(line)}")


def _in_one_line(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={_in_one_line(item)}" for name, item in value.items())
    return _lines(value)[0]


def _lines(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [f"{name}: {_in_one_line(item)}" for name, item in value.items()]
    if isinstance(value, list) and value and isinstance(value[0], list):
        cell = max(len(str(number)) for row in value for number in row)
        return [" ".join(f"{number:>{cell}}" for number in row) for row in value]
    if isinstance(value, list):
        return [" ".join(str(item) for item in value)]
    if isinstance(value, float):
        return [f"{value:.6g}"]
    return [str(value)]
