"""The command `fastsvm`: arguments, commands, reports as text or JSON, exit codes, errors and warnings in a line each.

Parameters of the models are those of the estimators' signatures, and are explained by their docstrings.
"""

import argparse
import errno
import io
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from inspect import signature
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

from fastsvm.estimators.fitting.documentation import described
from fastsvm.estimators.fitting.validation import Column
from fastsvm.estimators.registry import ESTIMATORS
from fastsvm.files.atomic_file import check_output
from fastsvm.formats import convert
from fastsvm.formats.readers import FORMATS, formats_with
from fastsvm.jobs.inputs import OPTIONS, Json, as_hdf5, remove_left_tables
from fastsvm.jobs.models import compress_model, convert_model, describe
from fastsvm.jobs.predict import evaluate, predict
from fastsvm.jobs.runner import resume, run, status
from fastsvm.jobs.signals import ended_by_signals
from fastsvm.jobs.training.job_file import Job, learns_labels, read_job
from fastsvm.jobs.training.search import automatic, searched
from fastsvm.jobs.training.train import train
from fastsvm.memory import parse_memory
from fastsvm.messages import in_options, nearest, say, visible
from fastsvm.tuning import current_tuning

_DATA = "HDF5 file with X, or a file or folder in any format that `convert` reads"
_MODEL = "file of the model, or text that svm-train or LIBLINEAR's train wrote"
_EXAMPLES = {
    "compress": ["a9a.model a9a.h5 -o small.model --tol 0.05"],
    "convert": ["a9a a9a.h5", "table.csv table.h5 --label kind --id name", "mnist/ test.h5 --split test"],
    "convert-model": ["a9a.model a9a.libsvm", "svm-train.model a9a.model --n-features 123"],
    "info": ["a9a.h5", "a9a.model"],
    "train": [
        "a9a.h5 -o a9a.model --C 1 --gamma 0.05",
        "table.csv --search --holdout 0.2 -o best.model",
        "big.h5 -o big.model --model linear --standardize --memory 2GB",
    ],
    "run": ["job.toml --folder run/", "job.toml --folder run/ --set model.C=10"],
    "resume": ["run/"],
    "status": ["run/"],
    "predict": ["a9a.model a9a-test.h5 -o predictions.csv", "table.model new.csv -o predictions.csv --id name"],
    "evaluate": ["a9a.model a9a-test.h5"],
    "demo": ["--folder demo"],
    "warmup": ["", "--model svc"],
}
_Commands = argparse._SubParsersAction
_CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)")
_BAD_INPUT = (
    ValueError,
    TypeError,
    BlockingIOError,
    FileNotFoundError,
    PermissionError,
    IsADirectoryError,
    NotADirectoryError,
)
_BAD_PATHS = {  # what is said of a path
    errno.ENOENT: "There is no file or folder {}.",
    errno.ENOTDIR: "{} cannot exist: a part of this path is a file.",
    errno.EISDIR: "{} is a folder; name a file.",
    errno.EEXIST: "{} exists; name another one.",
    errno.EACCES: "{} cannot be used: permission is denied.",
    errno.EPERM: "{} cannot be used: permission is denied.",
    errno.EROFS: "{} cannot be written: its file system is read-only.",
    errno.ELOOP: "{} is a symbolic link that leads to itself.",
    errno.ENAMETOOLONG: "The path {} is too long: most systems allow 255 bytes in a name and 4,096 in all.",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line with the words after `fastsvm`, None for those of the process, and return its exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal or a pipe may lack letters
    if sys.stderr is None:  # closed; progress is shown there
        sys.stderr = io.StringIO()
    options = make_parser(_named_model(sys.argv[1:] if arguments is None else arguments)).parse_args(arguments)
    try:
        with ended_by_signals(), warnings.catch_warnings():
            remove_left_tables()
            warnings.simplefilter("always", UserWarning)  # the base class of ConvergenceWarning
            warnings.showwarning = _say_warning
            report = options.run(options)
        with _flushed():
            show(report, options.json)
    except KeyboardInterrupt as stop:
        say(f"interrupted{_how_to_resume(options)}")
        return 128 + getattr(stop, "number", 2)
    except BrokenPipeError:  # the reader of the output has ended
        return 1
    except _BAD_INPUT as error:
        say(_one_line(_of_path(error) or error))
        return 2
    except Exception as error:
        how = _how_to_resume(options) if isinstance(error, OSError) and options.run is not _predict else ""
        if not how and (words := _of_path(error)) is not None:
            say(_one_line(words))
            return 2
        say(f"failed: {type(error).__name__}: {_one_line(error)}{how}")
        return 1
    return 0


@contextmanager
def _flushed() -> Iterator[None]:
    """Raise errors of standard output here. Python would raise them at its end, where nobody can say them."""
    try:
        yield
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is left in its buffer
        raise


def _how_to_resume(options: argparse.Namespace) -> str:
    if options.run is _predict:
        return "; the same command resumes where it stopped"
    folder = getattr(options, "folder", None) or getattr(options, "run_folder", None)
    is_run = folder and os.path.exists(os.path.join(folder, "job.json"))  # False for paths that are too long
    return f"; resume with: fastsvm resume {folder}" if is_run else ""


def _of_path(error: Exception) -> str | None:
    """Return what an error of the system says of a path, in plain words; None for other errors."""
    if not isinstance(error, OSError) or error.filename is None or error.errno not in _BAD_PATHS:
        return None
    if error.strerror != os.strerror(error.errno):  # somebody has added words
        return None
    path = str(error.filename)
    most = current_tuning().limits.letters
    short = path if len(path) <= most else f"{path[:most]}..."
    return _BAD_PATHS[error.errno].format(short if error.errno == errno.ENAMETOOLONG else path)


def _one_line(error: BaseException | str) -> str:
    """Return a message in a line, with a line for each entry of a list in it, which is indented."""
    lines = re.split(r"\n(?=  )", str(error))
    return "\n  ".join(in_options(visible(" ".join(line.split()))) for line in lines)


def _say_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    if issubclass(category, UserWarning):
        say(f"warning: {_one_line(message)}")


# --- reports -----------------------------------------------------------------------------------------------------


def show(report: Json, as_json: bool) -> None:
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


def _in_one_line(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={_in_one_line(item)}" for name, item in value.items())
    return _lines(value)[0]


def _lines(value: object) -> list[str]:
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


# --- commands ----------------------------------------------------------------------------------------------------


def _compress(options: argparse.Namespace) -> Json:
    _refuse_existing(options, options.output, options.model, options.data)
    parameters = _passed(options, "refit", "tol", "n_support", "memory", "random_state")
    return compress_model(options.model, options.data, options.output, _passed(options, *OPTIONS), **parameters)


def _convert(options: argparse.Namespace) -> Json:
    _refuse_existing(options, options.destination, options.source, *([options.label] if options.label else []))
    summary = convert(
        options.source,
        options.destination,
        **_passed(options, *OPTIONS, "shuffle", "seed", "dense", "n_features", "dtype"),
        memory=parse_memory(options.memory),
        progress=True,
    )
    for note in summary.notes:
        say(in_options(f"note: {note}"))
    return {name: value for name, value in summary._asdict().items() if name != "notes"}


def _refuse_existing(options: argparse.Namespace, path: str | None, *inputs: str) -> None:
    """Raise an error if an output cannot be written, or if it exists and may not be replaced."""
    if path is None:
        return
    check_output(path, *inputs)
    if os.path.lexists(path) and not options.force:
        raise ValueError(f"{path} exists. Pass --force to replace it, or name another file.")


def _passed(options: argparse.Namespace, *names: str) -> Json:
    """Return the options of these names that were passed or have a default, the first index as a number."""
    passed = {name: getattr(options, name) for name in names if hasattr(options, name)}
    if (first := passed.get("first_index")) is not None:
        passed["first_index"] = None if first == "auto" else int(first)
    return passed


def _convert_model(options: argparse.Namespace) -> Json:
    _refuse_existing(options, options.destination, options.source)
    return convert_model(options.source, options.destination, **_passed(options, "n_features", "first_index"))


def _info(options: argparse.Namespace) -> Json:
    return describe(options.file, _passed(options, *OPTIONS))


def _train(options: argparse.Namespace) -> Json:
    _refuse_existing(options, options.output, options.data)
    of_model = _passed(options, *options.parameters)
    names = [name for name in options.parameters if name in signature(ESTIMATORS[options.model]).parameters]
    for name in of_model:
        if name not in names:
            raise ValueError(f"--{name} is not a parameter of --model {options.model}. Choose from {', '.join(names)}.")
    path = str(Path(options.data).absolute())
    inputs = _passed(options, *OPTIONS) | {"last_label": learns_labels(options.model)}
    if options.folder is not None and inputs["split"] == "test":
        raise ValueError("A run trains on the part 'train' of a folder. Convert the part 'test' and name that file.")
    numbers = _passed(options, "holdout", "seed", "probability", *set(Job._fields).intersection(OPTIONS))
    job = Job(path, kind=options.model, parameters=of_model, **numbers)
    if options.search:
        job = job._replace(grid=automatic(job.kind, of_model))
    if inputs["label"] is False and learns_labels(job.kind):
        raise ValueError("Training needs labels; --no-label is for files to predict, and for --model one-class.")
    if options.folder is None:
        with as_hdf5(path, inputs, seed=options.seed) as file:
            if options.output is None:
                say("note: the model is not saved. --output FILE saves it; --folder FOLDER saves checkpoints, too.")
            job, best = job._replace(train=str(file)), {}
            if job.grid:
                job, found = searched(job)
                best = {"search": found}
            return train(job, options.output).report | best
    if options.output is not None:
        raise ValueError("A run saves its model in its folder as model.fastsvm. Pass --folder or --output, not both.")
    return run(job, options.folder)


def _run(options: argparse.Namespace) -> Json:
    if options.folder is None:
        raise ValueError("A run needs a folder of its own: pass --folder FOLDER, new or empty.")
    return run(read_job(options.job, options.set, options.scheduler), options.folder)


def _resume(options: argparse.Namespace) -> Json:
    return resume(options.run_folder, options.scheduler)


def _status(options: argparse.Namespace) -> Json:
    return status(options.run_folder)


def _predict(options: argparse.Namespace) -> Json:
    _refuse_existing(options, options.output, options.model, options.data)
    return predict(options.model, options.data, options.output, _passed(options, *OPTIONS))


def _evaluate(options: argparse.Namespace) -> Json:
    return evaluate(options.model, options.data, _passed(options, *OPTIONS))


def _demo(options: argparse.Namespace) -> Json:
    from fastsvm.jobs.demo import demo, table

    report = demo(options.folder, progress=True, tell=say)
    if options.json:
        return vars(report)
    for line in table(report):
        print(line)
    return {}


def _warmup(options: argparse.Namespace) -> Json:
    from fastsvm.jobs.warmup import warm_up

    return warm_up(None if options.model is None else [options.model], progress=True)


# --- arguments ---------------------------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    """Takes no abbreviations, and says an error in one line."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse the arguments; an unknown one is an error of this parser, which knows the nearest one."""
        options, unknown = super().parse_known_args(args, namespace)
        for word in unknown:
            if word.startswith("-"):
                names = [option for option in self._option_string_actions if option.startswith("--")]
                near = nearest(word.partition("=")[0], names)
                self.error(f"there is no option {word}.{f' Did you mean {near}?' if near else ''}")
        if unknown:
            self.error(f"{unknown[0]} is one argument too many.")
        return options, unknown

    def error(self, message: str) -> NoReturn:
        """Say an error and how to get help, and end with exit code 2."""
        choice = _CHOICE.search(message)
        near = None if choice is None else nearest(choice[1], re.findall(r"[\w.-]+", choice[2]))
        say(f"{message}. Did you mean {near}?" if near else message if message[-1] in ".?" else f"{message}.")
        say(f"see {self.prog} --help")
        self.exit(2)


def _named_model(words: Sequence[str]) -> str:
    """Return the model that the words of a command name, or the default."""
    named = ["svc", *(word.removeprefix("--model=") for word in words if word.startswith("--model="))]
    named += [word for before, word in pairwise(words) if before == "--model"]
    return named[-1] if named[-1] in ESTIMATORS else named[0]


def make_parser(model: str = "svc") -> argparse.ArgumentParser:
    """Return the parser of all commands, whose help explains the parameters of a model."""
    from fastsvm import __version__

    words = "Support vector machines on data of any size."
    parser = _Parser(prog="fastsvm", description=words, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"fastsvm {__version__}")
    added = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_compress(added)
    _add_convert(added)
    _add_convert_model(added)
    info = _command(added, "info", _info, "describe a data set or a model")
    info.add_argument("file", help=f"file of a model, or {_DATA}")
    _add_inputs(info)
    _add_train(added, model)
    run = _command(added, "run", _run, "run a training job in a folder of its own")
    run.add_argument("job", help="TOML file")
    run.add_argument("--folder", metavar="FOLDER", help="folder of the run, new or empty")
    run.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="override a key")
    _add_scheduler(run)
    resume = _command(added, "resume", _resume, "resume an interrupted run from its latest checkpoint")
    resume.add_argument("run_folder", metavar="FOLDER", help="folder of the run")
    _add_scheduler(resume)
    status = _command(added, "status", _status, "show the state and the progress of a run")
    status.add_argument("run_folder", metavar="FOLDER", help="folder of the run")
    predict = _command(added, "predict", _predict, "write the labels and decision values of the samples of a file")
    evaluate = _command(added, "evaluate", _evaluate, "compare predictions with the labels of a file")
    words = f"refuse a table with columns that the model does not know (formats: {formats_with('strict')})"
    for command in (predict, evaluate):
        command.add_argument("model", help=_MODEL)
        command.add_argument("data", help=_DATA)
        _add_inputs(command)
        command.add_argument("--strict", action="store_true", default=None, help=words)
    predict.add_argument("-o", "--output", required=True, help="file to write: CSV if it ends in .csv, else HDF5")
    _add_force(predict)
    demo = _command(added, "demo", _demo, "train on bundled images from a file and compare with scikit-learn")
    demo.add_argument("--folder", help="folder for the files (default: a temporary folder)")
    warmup = _command(added, "warmup", _warmup, "compile what the estimators need, so that no fit waits for it later")
    warmup.add_argument("--model", choices=tuple(ESTIMATORS), help="estimator (default: all)")
    return parser


def _command(added: _Commands, name: str, run: Callable, words: str) -> argparse.ArgumentParser:
    parser = added.add_parser(
        name,
        help=words,
        description=words[0].upper() + words[1:] + ".",
        epilog="examples:\n" + "".join(f"  {f'fastsvm {name} {line}'.strip()}\n" for line in _EXAMPLES[name]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object")
    parser.set_defaults(run=run)
    return parser


def _add_scheduler(parser: argparse.ArgumentParser) -> None:
    words = "address of the scheduler of a Dask cluster whose workers learn (default: that of the job)"
    parser.add_argument("--scheduler", metavar="ADDRESS", help=words)


def _add_force(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--force", action="store_true", help="replace the output if it exists")


def _add_inputs(parser: argparse.ArgumentParser) -> None:
    """Add the options of files, most of which files in HDF5 do not need."""
    words = f"{', '.join(FORMATS)} (default: recognised by content and name)"
    parser.add_argument("--format", metavar="FORMAT", help=words)
    label = parser.add_mutually_exclusive_group()
    words = "column of the labels, by name or position from 0, a file or an array with them, or their path in a file"
    label.add_argument("--label", metavar="NAME", help=f"{words} (formats: HDF5, Zarr, {formats_with('label')})")
    label.add_argument("--no-label", dest="label", action="store_const", const=False, help="there are no labels")
    words = "column that identifies the rows, which is no feature, by name or position from 0"
    parser.add_argument("--id", metavar="NAME", help=f"{words} (formats: {formats_with('id')})")
    words = "column of the weights of the rows, which is no feature, by name or position from 0"
    words = f"{words}, or their path in a file (formats: HDF5, Zarr, {formats_with('sample_weight')})"
    parser.add_argument("--sample-weight", metavar="NAME", help=words)
    words = f"name of the array with the samples, or its path in a file (formats: HDF5, Zarr, {formats_with('array')})"
    parser.add_argument("--array", metavar="NAME", help=words)
    words = "index of the first feature; default: 0 if an index is 0, else that of the model, else 1"
    words = f"{words} (formats: {formats_with('first_index')})"
    parser.add_argument("--first-index", choices=("auto", "0", "1"), help=words)
    words = f"part of a folder or archive to read (formats: {formats_with('split')})"
    parser.add_argument("--split", choices=("train", "test"), help=words)


def _add_compress(added: _Commands) -> None:
    words = "write a kernel model with fewer support vectors, which predicts faster"
    compress = _command(added, "compress", _compress, words)
    compress.add_argument("model", help=_MODEL)
    compress.add_argument("data", help=f"rows on which decision values must agree: {_DATA}")
    compress.add_argument("-o", "--output", required=True, help="file for the compressed model")

    def add(name: str, kind: type, metavar: str, words: str) -> None:
        compress.add_argument(name, type=kind, metavar=metavar, default=argparse.SUPPRESS, help=words)

    add("--tol", float, "T", "largest difference of a decision value on these rows (default: 0.1)")
    add("--n-support", int, "N", "number of support vectors to keep, whatever the difference")
    add("--memory", str, "SIZE", "memory budget (default: half of what is available)")
    words = "seed of the draws (default: 0)"
    compress.add_argument("--seed", dest="random_state", type=int, default=0, help=words)
    words = "move decision values towards the labels of the rows, with --n-support, for classes that overlap"
    compress.add_argument("--refit", action="store_true", help=words)
    _add_inputs(compress)
    _add_force(compress)


def _add_convert(added: _Commands) -> None:
    def add(option: str, words: str, **more: Column) -> None:
        parser.add_argument("--" + option.replace("_", "-"), help=f"{words} (formats: {formats_with(option)})", **more)

    parser = _command(added, "convert", _convert, "convert a published format to HDF5")
    parser.add_argument("source", help="file or folder to convert")
    parser.add_argument("destination", help="HDF5 file to write")
    _add_inputs(parser)
    _add_force(parser)
    parser.add_argument("--no-shuffle", dest="shuffle", action="store_false", help="keep the order of the samples")
    parser.add_argument("--seed", type=int, default=0, help="seed of the shuffle (default: 0)")
    add("dense", "store sparse samples as a dense matrix", action="store_true", default=None)
    add("n_features", "number of features; default: the largest index", type=int)
    add(
        "dtype",
        "type of the values; by default float32, or float64 where float32 would merge values",
        choices=("float32", "float64"),
    )
    parser.add_argument("--memory", default="256MiB", help="memory budget (default: 256MiB)")


def _add_convert_model(added: _Commands) -> None:
    words = "convert a model to the text of LIBSVM or LIBLINEAR, or their text to a model"
    convert = _command(added, "convert-model", _convert_model, words)
    convert.add_argument("source", help="file of a model, or the text of one")
    convert.add_argument("destination", help="file to write: text if the source is a model, else a model")
    words = "number of features, which LIBSVM's text does not say (default: the largest index in it)"
    convert.add_argument("--n-features", type=int, metavar="N", help=words)
    words = "index of the first feature in LIBSVM's text; default: 0 if an index is 0, else 1"
    convert.add_argument("--first-index", choices=("auto", "0", "1"), help=words)
    _add_force(convert)


def _add_train(added: _Commands, model: str) -> None:
    train = _command(added, "train", _train, "train a model from a file")
    train.usage = "fastsvm train DATA [-o FILE | --folder FOLDER] [--model MODEL] [options] [parameters of the model]"
    train.add_argument("data", help=_DATA)
    train.add_argument("-o", "--output", help="file for the model (default: the model is not saved)")
    words = "folder of a run with checkpoints, log, report and model, which `fastsvm resume` resumes"
    train.add_argument("--folder", metavar="FOLDER", help=words)
    train.add_argument("--holdout", type=float, default=0.0, help="share of samples held out for a test (default: 0)")
    train.add_argument("--seed", type=int, default=0, help="seed of held-out samples and estimator (default: 0)")
    words = "choose C, gamma and the like, as far as they are not passed, by cross-validation"
    train.add_argument("--search", action="store_true", help=words)
    words = "calibrate probabilities of the classes, which `fastsvm predict` writes; of a classifier"
    train.add_argument("--probability", choices=("sigmoid", "isotonic", "temperature"), help=words)
    train.add_argument("--model", choices=tuple(ESTIMATORS), default="svc", help="estimator (default: svc)")
    _add_inputs(train)
    _add_force(train)
    words = f"of --model {model}; --help with another --model explains those of that one"
    group = train.add_argument_group("parameters of the model", words)
    train.set_defaults(parameters=list(parameters()))
    for name, defaults in parameters().items():
        flags = dict.fromkeys([f"--{name}", f"--{name.replace('_', '-')}"])
        is_known = model in defaults  # else the option is an error that names those of the model
        words = f"{meaning(model, name)} (default: {defaults[model]})" if is_known else argparse.SUPPRESS
        if all(isinstance(default, bool) for default in defaults.values()) and name != "average":  # may be an int too
            action = argparse.BooleanOptionalAction
            group.add_argument(*flags, dest=name, action=action, default=argparse.SUPPRESS, help=words)
        else:
            group.add_argument(*flags, dest=name, type=value, metavar="VALUE", default=argparse.SUPPRESS, help=words)


def parameters() -> dict[str, dict[str, object]]:
    """Return the defaults of all parameters of all models, by parameter and model."""
    defaults: dict[str, dict[str, object]] = {}
    for model, kind in ESTIMATORS.items():
        for name, parameter in signature(kind).parameters.items():
            if name not in ("warm_start", "random_state", "n_jobs", "probability"):
                defaults.setdefault(name, {})[model] = parameter.default
    return defaults


def meaning(model: str, name: str) -> str:
    """Return what a parameter of an estimator means, by its docstring: its type or choices, and all that is said."""
    entries = described(ESTIMATORS[model], "Parameters").items()
    head, _, text = next(entry for names, entry in entries if name in names.split(", ")).partition("\n")
    kind = re.sub(r",?\s*(default=.*|optional)$", "", head.partition(" : ")[2])
    return f"{kind}. {' '.join(text.split())}".replace("%", "%%")


def value(text: str) -> object:
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
