"""The arguments of the commands, and one-line errors with the nearest name.

Parameters of the models are those of the estimators' signatures, and are explained by their docstrings.
"""

import argparse
import json
import re
from collections.abc import Callable, Sequence
from inspect import signature
from typing import NoReturn

import fastsvm.cli.commands as commands
from fastsvm.estimators import ESTIMATORS
from fastsvm.estimators.fitting.documentation import described
from fastsvm.estimators.fitting.validation import Column
from fastsvm.formats.readers import FORMATS, formats_with
from fastsvm.jobs.say import nearest, say

_DATA = "HDF5 file with X, or a file or folder in any format that `convert` reads"
_MODEL = "file of the model, or text that svm-train or LIBLINEAR's train wrote"
_EXAMPLES = {
    "compress": ["a9a.model a9a.h5 -o small.model --tol 0.05"],
    "convert": ["a9a a9a.h5", "table.csv table.h5 --label kind --id name", "mnist/ test.h5 --split test"],
    "convert-model": ["a9a.model a9a.libsvm", "svm-train.model a9a.model --n-features 123"],
    "fetch": ["mnist --folder data"],
    "info": ["a9a.h5", "a9a.model"],
    "train": [
        "a9a.h5 -o a9a.model --C 1 --gamma 0.05",
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


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    from fastsvm import __version__

    words = "Support vector machines on data of any size."
    parser = _Parser(prog="fastsvm", description=words, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"fastsvm {__version__}")
    added = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_compress(added)
    _add_convert(added)
    _add_convert_model(added)
    fetch = _command(added, "fetch", commands.do_fetch, "download a published data set and convert it")
    fetch.add_argument("name", choices=("cifar10", "mnist", "fashion-mnist"), help="data set")
    fetch.add_argument("--folder", default="data", help="folder for the files (default: data)")
    info = _command(added, "info", commands.do_info, "describe a data set or a model")
    info.add_argument("file", help=f"file of a model, or {_DATA}")
    _add_inputs(info)
    _add_train(added)
    run = _command(added, "run", commands.do_run, "run a training job in a folder of its own")
    run.add_argument("job", help="TOML file")
    _add_run_folder(run, "folder of the run, new or empty")
    run.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="override a key")
    _add_scheduler(run)
    resume = _command(added, "resume", commands.do_resume, "resume an interrupted run from its latest checkpoint")
    resume.add_argument("run_folder", metavar="FOLDER", help="folder of the run")
    _add_scheduler(resume)
    status = _command(added, "status", commands.do_status, "show the state and the progress of a run")
    status.add_argument("run_folder", metavar="FOLDER", help="folder of the run")
    predict = _command(
        added, "predict", commands.do_predict, "write the labels and decision values of the samples of a file"
    )
    predict.add_argument("model", help=_MODEL)
    predict.add_argument("data", help=_DATA)
    predict.add_argument("-o", "--output", required=True, help="file to write: CSV if it ends in .csv, else HDF5")
    _add_inputs(predict)
    _add_force(predict)
    evaluate = _command(added, "evaluate", commands.do_evaluate, "compare predictions with the labels of a file")
    evaluate.add_argument("model", help=_MODEL)
    evaluate.add_argument("data", help=_DATA)
    _add_inputs(evaluate)
    demo = _command(
        added, "demo", commands.do_demo, "train on bundled images from a file and compare with scikit-learn"
    )
    demo.add_argument("--folder", help="folder for the files (default: a temporary folder)")
    warmup = _command(
        added, "warmup", commands.do_warmup, "compile what the estimators need, so that no fit waits for it later"
    )
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


def _add_run_folder(parser: argparse.ArgumentParser, words: str) -> None:
    """Add the option of a run's folder; -o and --output name files."""
    parser.add_argument("--folder", metavar="FOLDER", help=words)


def _add_scheduler(parser: argparse.ArgumentParser) -> None:
    words = "address of the scheduler of a Dask cluster whose workers learn (default: that of the job)"
    parser.add_argument("--scheduler", metavar="ADDRESS", help=words)


def _add_force(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--force", action="store_true", help="replace the output if it exists")


def _add_inputs(parser: argparse.ArgumentParser) -> None:
    """Add the options of files that are not in HDF5."""
    words = f"{', '.join(FORMATS)} (default: recognised by content and name)"
    parser.add_argument("--format", metavar="FORMAT", help=words)
    label = parser.add_mutually_exclusive_group()
    words = "column of the labels, by name or position from 0, or a file or an array with them"
    label.add_argument("--label", metavar="NAME", help=f"{words} (formats: {formats_with('label')})")
    label.add_argument("--no-label", dest="label", action="store_const", const=False, help="there are no labels")
    words = "column that identifies the rows, which is no feature, by name or position from 0"
    parser.add_argument("--id", metavar="NAME", help=f"{words} (formats: {formats_with('id')})")
    words = "column of the weights of the rows, which is no feature, by name or position from 0"
    parser.add_argument("--sample-weight", metavar="NAME", help=f"{words} (formats: {formats_with('sample_weight')})")
    words = "index of the first feature; default: 0 if an index is 0, else that of the model, else 1"
    _add_first_index(parser, f"{words} (formats: {formats_with('first_index')})")
    words = f"part of a folder or archive to read (formats: {formats_with('split')})"
    parser.add_argument("--split", choices=("train", "test"), help=words)


class _FirstIndex(argparse.Action):
    """Keeps "auto" as None, and other words as numbers."""

    def __call__(self, parser: object, options: argparse.Namespace, word: object, option: str | None = None) -> None:
        options.first_index = None if word == "auto" else int(str(word))


def _add_first_index(parser: argparse.ArgumentParser, words: str) -> None:
    parser.add_argument("--first-index", choices=("auto", "0", "1"), action=_FirstIndex, help=words)


def _add_compress(added: _Commands) -> None:
    words = "write a kernel model with fewer support vectors, which predicts faster"
    compress = _command(added, "compress", commands.do_compress, words)
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
        convert.add_argument("--" + option.replace("_", "-"), help=f"{words} (formats: {formats_with(option)})", **more)

    convert = _command(added, "convert", commands.do_convert, "convert a published format to HDF5")
    convert.add_argument("source", help="file or folder to convert")
    convert.add_argument("destination", help="HDF5 file to write")
    _add_inputs(convert)
    _add_force(convert)
    convert.add_argument("--no-shuffle", dest="shuffle", action="store_false", help="keep the order of the samples")
    convert.add_argument("--seed", type=int, default=0, help="seed of the shuffle (default: 0)")
    add("dense", "store sparse samples as a dense matrix", action="store_true", default=None)
    add("array", "name of the array with the samples")
    add("n_features", "number of features; default: the largest index", type=int)
    add(
        "dtype",
        "type of the values; by default float32, or float64 where float32 would merge values",
        choices=("float32", "float64"),
    )
    convert.add_argument("--memory", default="256MiB", help="memory budget (default: 256MiB)")


def _add_convert_model(added: _Commands) -> None:
    words = "convert a model to the text of LIBSVM or LIBLINEAR, or their text to a model"
    convert = _command(added, "convert-model", commands.do_convert_model, words)
    convert.add_argument("source", help="file of a model, or the text of one")
    convert.add_argument("destination", help="file to write: text if the source is a model, else a model")
    words = "number of features, which LIBSVM's text does not say (default: the largest index in it)"
    convert.add_argument("--n-features", type=int, metavar="N", help=words)
    _add_first_index(convert, "index of the first feature in LIBSVM's text; default: 0 if an index is 0, else 1")
    _add_force(convert)


def _add_train(added: _Commands) -> None:
    train = _command(added, "train", commands.do_train, "train a model from a file")
    train.usage = "fastsvm train DATA [-o FILE | --folder FOLDER] [--model MODEL] [options] [parameters of the model]"
    train.add_argument("data", help=_DATA)
    train.add_argument("-o", "--output", help="file for the model (default: the model is not saved)")
    words = "folder of a run with checkpoints, log, report and model, which `fastsvm resume` resumes"
    _add_run_folder(train, words)
    train.add_argument("--holdout", type=float, default=0.0, help="share of samples held out for a test (default: 0)")
    train.add_argument("--seed", type=int, default=0, help="seed of held-out samples and estimator (default: 0)")
    train.add_argument("--model", choices=tuple(ESTIMATORS), default="svc", help="estimator (default: svc)")
    _add_inputs(train)
    _add_force(train)
    group = train.add_argument_group("parameters of the model")
    train.set_defaults(parameters=list(parameters()))
    for name, defaults in parameters().items():
        flags = dict.fromkeys([f"--{name}", f"--{name.replace('_', '-')}"])
        words = f"{meaning(next(iter(defaults)), name)} (default: {_shown(defaults)})"
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
            if name not in ("warm_start", "random_state", "n_jobs"):
                defaults.setdefault(name, {})[model] = parameter.default
    return defaults


def meaning(model: str, name: str) -> str:
    """Return what a parameter of an estimator means: the first sentence of its docstring, and its type or choices."""
    entries = described(ESTIMATORS[model], "Parameters").items()
    entry = next((text for names, text in entries if name in names.split(", ")), "")
    head, _, text = entry.partition("\n")
    kind = re.sub(r",?\s*(default=.*|optional)$", "", head.partition(" : ")[2])
    sentence = re.split(r"(?<=[.:])\s", " ".join(text.split()), maxsplit=1)[0].rstrip(".:")
    return f"{sentence[:1].lower()}{sentence[1:]}; {kind}".replace("%", "%%") if entry else ""


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


def _shown(defaults: dict[str, object]) -> str:
    """Return the defaults of a parameter by model, or the only one."""
    if len(set(map(str, defaults.values()))) == 1:
        few = "" if len(defaults) > 1 else f"; {next(iter(defaults))} only"
        return f"{next(iter(defaults.values()))}{few}"
    return ", ".join(f"{model}: {default}" for model, default in defaults.items())
