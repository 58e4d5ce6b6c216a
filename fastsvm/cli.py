"""The command line: `fastsvm convert | fetch | info | train | run | resume | status | predict | evaluate | demo`."""

import argparse
import json
import warnings
from collections.abc import Callable, Sequence
from inspect import signature
from pathlib import Path
from typing import Any

from fastsvm.files.atomic_file import check_output
from fastsvm.jobs.inputs import InputOptions
from fastsvm.jobs.say import say
from fastsvm.jobs.stopping import ended_by_signals
from fastsvm.jobs.visible import visible
from fastsvm.memory import parse_memory

__all__ = ["main"]

_DATA = "HDF5 file with X, or a file or folder in any format that `convert` reads"
_BAD_INPUT = (ValueError, TypeError, FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    arguments : sequence of str or None
        The words after `fastsvm`; None for those of the process.

    Returns
    -------
    int
        0 for success, 2 for bad input with one line on standard error, 1 for another error, 130 after Ctrl-C, 143
        after SIGTERM, 129 after SIGHUP.
    """
    options = _parser().parse_args(arguments)
    try:
        with ended_by_signals(), warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)  # the base class of ConvergenceWarning
            warnings.showwarning = _say_warning
            report = options.run(options)
        _show(report, options.json)
    except KeyboardInterrupt as stop:
        say(f"interrupted{_how_to_resume(options)}")
        return 128 + getattr(stop, "number", 2)
    except BrokenPipeError:  # the reader of the output has ended
        return 1
    except _BAD_INPUT as error:
        say(_one_line(error))
        return 2
    except Exception as error:
        how = _how_to_resume(options) if isinstance(error, OSError) and options.run is not _predict else ""
        say(f"failed: {type(error).__name__}: {_one_line(error)}{how}")
        return 1
    return 0


def _how_to_resume(options: argparse.Namespace) -> str:
    if options.run is _predict:
        return "; the same command resumes where it stopped"
    folder = getattr(options, "out", None) or getattr(options, "run_folder", None)
    return f"; resume with: fastsvm resume {folder}" if folder and Path(folder, "job.json").exists() else ""


def _one_line(error: BaseException | str) -> str:
    return visible(" ".join(str(error).split()))


def _say_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    if issubclass(category, UserWarning):
        say(f"warning: {_one_line(message)}")


# --- commands --------------------------------------------------------------------------------------------


def _convert(options: argparse.Namespace) -> dict[str, Any]:
    from fastsvm.formats import convert

    _refuse_existing(options, options.destination, options.source, *([options.label] if options.label else []))
    summary = convert(
        options.source,
        options.destination,
        format=options.format,
        split=options.split,
        shuffle=options.shuffle,
        seed=options.seed,
        dense=options.dense,
        label=options.label,
        id=options.id,
        array=options.array,
        n_features=options.n_features,
        dtype=options.dtype,
        memory=parse_memory(options.memory),
        progress=True,
    )
    for note in summary.notes:
        say(f"note: {note}")
    return {name: value for name, value in summary._asdict().items() if name != "notes"}


def _refuse_existing(options: argparse.Namespace, path: str | None, *inputs: str) -> None:
    """Raise an error if an output cannot be written, or if it exists and may not be replaced."""
    if path is None:
        return
    check_output(path, *inputs)
    if Path(path).exists() and not options.force:
        raise ValueError(f"{path} exists. Pass --force to replace it, or name another file.")


def _inputs(options: argparse.Namespace) -> InputOptions:
    return InputOptions(options.format, options.label, options.id, options.split)


def _fetch(options: argparse.Namespace) -> dict[str, Any]:
    from fastsvm.formats.fetch import fetch

    return {"files": [str(path) for path in fetch(options.name, options.folder)]}


def _info(options: argparse.Namespace) -> dict[str, Any]:
    from fastsvm.jobs.inspection import describe

    return describe(options.file, _inputs(options))


def _train(options: argparse.Namespace) -> dict[str, Any]:
    from fastsvm.estimators import ESTIMATORS
    from fastsvm.jobs.inputs import as_hdf5
    from fastsvm.jobs.runner import run
    from fastsvm.jobs.training.job_file import Job
    from fastsvm.jobs.training.train import train

    _refuse_existing(options, options.output, options.data)
    given = {name: getattr(options, name) for name in _parameters() if hasattr(options, name)}
    known = [name for name in _parameters() if name in signature(ESTIMATORS[options.model]).parameters]
    for name in given:
        if name not in known:
            raise ValueError(f"--{name} is not a parameter of --model {options.model}. Choose from {', '.join(known)}.")
    given.setdefault("verbose", True)
    path = str(Path(options.data).absolute())
    inputs = _inputs(options)
    if inputs.label is False:
        raise ValueError("Training needs labels; --no-label is for files to predict.")
    if options.out is not None and inputs.split == "test":
        raise ValueError("A run trains on the part 'train' of a folder. Convert the part 'test' and name that file.")
    job = Job(
        path,
        holdout=options.holdout,
        seed=options.seed,
        kind=options.model,
        parameters=given,
        format=inputs.format,
        label=inputs.label,
        id=inputs.id,
    )
    if options.out is None:
        with as_hdf5(path, inputs, seed=options.seed) as file:
            return train(job._replace(train=str(file)), options.output).report._asdict()
    if options.output is not None:
        raise ValueError("A run saves its model in its folder as model.fastsvm. Pass --out or --output, not both.")
    return run(job, options.out)


def _run(options: argparse.Namespace) -> dict[str, Any]:
    from fastsvm.jobs.runner import run
    from fastsvm.jobs.training.job_file import read_job

    return run(read_job(options.job, options.set), options.out)


def _resume(options: argparse.Namespace) -> dict[str, Any]:
    from fastsvm.jobs.runner import resume

    return resume(options.run_folder)


def _status(options: argparse.Namespace) -> dict[str, Any]:
    from fastsvm.jobs.runner import status

    return status(options.run_folder)


def _predict(options: argparse.Namespace) -> dict[str, Any]:
    from fastsvm.jobs.prediction.predict import predict

    _refuse_existing(options, options.output, options.model, options.data)
    return predict(options.model, options.data, options.output, _inputs(options))._asdict()


def _evaluate(options: argparse.Namespace) -> dict[str, Any]:
    from fastsvm.jobs.prediction.predict import evaluate

    return evaluate(options.model, options.data, _inputs(options))._asdict()


def _demo(options: argparse.Namespace) -> dict[str, Any]:
    from fastsvm.jobs.demo import demo

    return demo(options.folder)._asdict()


# --- arguments ------------------------------------------------------------------------------------------


def _parameters() -> dict[str, dict[str, Any]]:
    """Return the defaults of all parameters of all models, by parameter and model."""
    from fastsvm.estimators import ESTIMATORS

    found: dict[str, dict[str, Any]] = {}
    for model, kind in ESTIMATORS.items():
        for name, parameter in signature(kind).parameters.items():
            if name not in ("warm_start", "random_state", "n_jobs"):
                found.setdefault(name, {})[model] = parameter.default
    return found


def _parser() -> argparse.ArgumentParser:
    from fastsvm import __version__

    parser = argparse.ArgumentParser(prog="fastsvm", description="Support vector machines on data of any size.")
    parser.add_argument("--version", action="version", version=f"fastsvm {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_convert(commands)
    fetch = _command(commands, "fetch", _fetch, "download a published data set and convert it")
    fetch.add_argument("name", choices=("cifar10", "mnist", "fashion-mnist"))
    fetch.add_argument("--folder", default="data", help="folder for the files (default: data)")
    info = _command(commands, "info", _info, "describe a data set or a model")
    info.add_argument("file", help=f"file of a model, or {_DATA}")
    _add_inputs(info)
    _add_train(commands)
    run = _command(commands, "run", _run, "run a training job in a folder of its own")
    run.add_argument("job", help="TOML file")
    run.add_argument("--out", required=True, metavar="FOLDER", help="folder of the run, new or empty")
    run.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="override a key")
    resume = _command(commands, "resume", _resume, "resume an interrupted run from its latest checkpoint")
    resume.add_argument("run_folder", metavar="FOLDER")
    status = _command(commands, "status", _status, "show the state and the progress of a run")
    status.add_argument("run_folder", metavar="FOLDER")
    predict = _command(commands, "predict", _predict, "write the labels and decision values of the samples of a file")
    predict.add_argument("model", help="file of the model")
    predict.add_argument("data", help=_DATA)
    predict.add_argument("-o", "--output", required=True, help="file to write: CSV if it ends in .csv, else HDF5")
    _add_inputs(predict)
    _add_force(predict)
    evaluate = _command(commands, "evaluate", _evaluate, "compare predictions with the labels of a file")
    evaluate.add_argument("model", help="file of the model")
    evaluate.add_argument("data", help=_DATA)
    _add_inputs(evaluate)
    demo = _command(commands, "demo", _demo, "train on bundled images from a file and compare with scikit-learn")
    demo.add_argument("--folder", help="folder for the files (default: a temporary folder)")
    return parser


def _command(commands: Any, name: str, run: Callable, words: str) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=words, description=words[0].upper() + words[1:] + ".")
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object")
    parser.set_defaults(run=run)
    return parser


def _add_force(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--force", action="store_true", help="replace the output if it exists")


def _add_inputs(parser: argparse.ArgumentParser) -> None:
    """Add the options of files that are not in HDF5."""
    from fastsvm.formats.registry import FORMATS, formats_with

    words = f"{', '.join(FORMATS)} (default: recognised by content and name)"
    parser.add_argument("--format", metavar="FORMAT", help=words)
    label = parser.add_mutually_exclusive_group()
    words = "column of the labels, by name or position from 0, or a file or an array with them"
    label.add_argument("--label", metavar="NAME", help=f"{words} (formats: {formats_with('label')})")
    label.add_argument("--no-label", dest="label", action="store_const", const=False, help="there are no labels")
    words = "column that identifies the rows, which is no feature, by name or position from 0"
    parser.add_argument("--id", metavar="NAME", help=f"{words} (formats: {formats_with('id')})")
    words = f"part of a folder or archive to read (formats: {formats_with('split')})"
    parser.add_argument("--split", choices=("train", "test"), help=words)


def _add_convert(commands: Any) -> None:
    from fastsvm.formats.registry import formats_with

    def add(option: str, words: str, **given: Any) -> None:
        convert.add_argument(
            "--" + option.replace("_", "-"), help=f"{words} (formats: {formats_with(option)})", **given
        )

    convert = _command(commands, "convert", _convert, "convert a published format to HDF5")
    convert.add_argument("source", help="file or folder to convert")
    convert.add_argument("destination", help="HDF5 file to write")
    _add_inputs(convert)
    _add_force(convert)
    convert.add_argument("--no-shuffle", dest="shuffle", action="store_false", help="keep the order of the samples")
    convert.add_argument("--seed", type=int, default=0, help="seed of the shuffle (default: 0)")
    add("dense", "store sparse samples as a dense matrix", action="store_true", default=None)
    add("array", "name of the array with the samples")
    add("n_features", "number of features; default: the largest index", type=int)
    add("dtype", "type of the values", choices=("float32", "float64"))
    convert.add_argument("--memory", default="256MiB", help="memory budget (default: 256MiB)")


def _add_train(commands: Any) -> None:
    from fastsvm.estimators import ESTIMATORS

    train = _command(commands, "train", _train, "train a model from a file")
    train.add_argument("data", help=_DATA)
    train.add_argument("-o", "--output", help="file for the model (default: the model is not saved)")
    words = "folder of a run with checkpoints, log, report and model, which `fastsvm resume` resumes"
    train.add_argument("--out", metavar="FOLDER", help=words)
    train.add_argument("--holdout", type=float, default=0.0, help="share of samples held out for a test (default: 0)")
    train.add_argument("--seed", type=int, default=0, help="seed of held-out samples and estimator (default: 0)")
    train.add_argument("--model", choices=tuple(ESTIMATORS), default="svc", help="estimator (default: svc)")
    _add_inputs(train)
    _add_force(train)
    group = train.add_argument_group("parameters of the model")
    for name, defaults in _parameters().items():
        flags = dict.fromkeys([f"--{name}", f"--{name.replace('_', '-')}"])
        words = ", ".join(f"{model}: {default}" for model, default in defaults.items())
        words = f"default: {words}"
        if all(isinstance(default, bool) for default in defaults.values()) and name != "average":  # may be an int too
            action: Any = argparse.BooleanOptionalAction
            group.add_argument(*flags, dest=name, action=action, default=argparse.SUPPRESS, help=words)
        else:
            group.add_argument(*flags, dest=name, type=_value, metavar="VALUE", default=argparse.SUPPRESS, help=words)


def _value(text: str) -> Any:
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


# --- output ----------------------------------------------------------------------------------------------


def _show(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(report, default=str))
        return
    width = max(len(name) for name in report)
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
