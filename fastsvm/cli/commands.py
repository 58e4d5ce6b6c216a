"""The commands: each takes its arguments and returns a report."""

import argparse
import os
from inspect import signature
from pathlib import Path

from fastsvm.files.atomic_file import check_output
from fastsvm.jobs.inputs import InputOptions, Json
from fastsvm.jobs.say import in_options, say
from fastsvm.memory import parse_memory

_OF_FORMATS = "format", "label", "id", "sample_weight", "first_index"  # how to read files that are not in HDF5


def do_compress(options: argparse.Namespace) -> Json:
    """Write a model with fewer support vectors."""
    from fastsvm.jobs.models import compress_model

    _refuse_existing(options, options.output, options.model, options.data)
    report = compress_model(
        options.model,
        options.data,
        options.output,
        _inputs(options),
        **_passed(options, "refit", "tol", "n_support", "memory", "random_state"),
    )
    return report._asdict()


def do_convert(options: argparse.Namespace) -> Json:
    """Convert a file to HDF5."""
    from fastsvm.formats import convert

    _refuse_existing(options, options.destination, options.source, *([options.label] if options.label else []))
    summary = convert(
        options.source,
        options.destination,
        **_passed(options, *_OF_FORMATS, "split", "shuffle", "seed", "dense", "array", "n_features", "dtype"),
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
    """Return the options of these names that were passed or have a default."""
    return {name: getattr(options, name) for name in names if hasattr(options, name)}


def _inputs(options: argparse.Namespace) -> InputOptions:
    return InputOptions(**_passed(options, *_OF_FORMATS, "split"))


def do_convert_model(options: argparse.Namespace) -> Json:
    """Convert a model to the text of LIBSVM or LIBLINEAR, or from it."""
    from fastsvm.jobs.models import convert_model

    _refuse_existing(options, options.destination, options.source)
    return convert_model(options.source, options.destination, **_passed(options, "n_features", "first_index"))


def do_fetch(options: argparse.Namespace) -> Json:
    """Download a published data set and convert it."""
    from fastsvm.formats.fetch import fetch

    return {"files": [str(path) for path in fetch(options.name, options.folder)]}


def do_info(options: argparse.Namespace) -> Json:
    """Describe a data set or a model."""
    from fastsvm.jobs.models import describe

    return describe(options.file, _inputs(options))


def do_train(options: argparse.Namespace) -> Json:
    """Train a model, in a folder of its own with --folder."""
    from fastsvm.estimators import ESTIMATORS
    from fastsvm.jobs.inputs import as_hdf5
    from fastsvm.jobs.runner import run
    from fastsvm.jobs.training.job_file import Job, learns_labels
    from fastsvm.jobs.training.train import train

    _refuse_existing(options, options.output, options.data)
    of_model = _passed(options, *options.parameters)
    names = [name for name in options.parameters if name in signature(ESTIMATORS[options.model]).parameters]
    for name in of_model:
        if name not in names:
            raise ValueError(f"--{name} is not a parameter of --model {options.model}. Choose from {', '.join(names)}.")
    path = str(Path(options.data).absolute())
    inputs = _inputs(options)._replace(last_label=learns_labels(options.model))
    if options.folder is not None and inputs.split == "test":
        raise ValueError("A run trains on the part 'train' of a folder. Convert the part 'test' and name that file.")
    numbers = _passed(options, "holdout", "seed", *_OF_FORMATS)
    job = Job(path, kind=options.model, parameters=of_model, **numbers)
    if inputs.label is False and learns_labels(job.kind):
        raise ValueError("Training needs labels; --no-label is for files to predict, and for --model one-class.")
    if options.folder is None:
        with as_hdf5(path, inputs, seed=options.seed) as file:
            if options.output is None:
                say("note: the model is not saved. --output FILE saves it; --folder FOLDER saves checkpoints, too.")
            return train(job._replace(train=str(file)), options.output).report._asdict()
    if options.output is not None:
        raise ValueError("A run saves its model in its folder as model.fastsvm. Pass --folder or --output, not both.")
    return run(job, options.folder)


def do_run(options: argparse.Namespace) -> Json:
    """Run a job."""
    from fastsvm.jobs.runner import run
    from fastsvm.jobs.training.job_file import read_job

    if options.folder is None:
        raise ValueError("A run needs a folder of its own: pass --folder FOLDER, new or empty.")
    return run(read_job(options.job, options.set, options.scheduler), options.folder)


def do_resume(options: argparse.Namespace) -> Json:
    """Resume a run."""
    from fastsvm.jobs.runner import resume

    return resume(options.run_folder, options.scheduler)


def do_status(options: argparse.Namespace) -> Json:
    """Show the state of a run."""
    from fastsvm.jobs.runner import status

    return status(options.run_folder)


def do_predict(options: argparse.Namespace) -> Json:
    """Predict the samples of a file."""
    from fastsvm.jobs.predict import predict

    _refuse_existing(options, options.output, options.model, options.data)
    return predict(options.model, options.data, options.output, _inputs(options))._asdict()


def do_evaluate(options: argparse.Namespace) -> Json:
    """Compare predictions with the labels of a file."""
    from fastsvm.jobs.predict import evaluate

    return evaluate(options.model, options.data, _inputs(options))._asdict()


def do_demo(options: argparse.Namespace) -> Json:
    """Run the demo."""
    from fastsvm.jobs.demo import demo, table

    report = demo(options.folder, progress=True, tell=say)
    if options.json:
        return report._asdict()
    for line in table(report):
        print(line)
    return {}


def do_warmup(options: argparse.Namespace) -> Json:
    """Compile what the estimators need."""
    from fastsvm.jobs.warmup import warm_up

    return warm_up(None if options.model is None else [options.model], progress=True)._asdict()
