"""Help and errors of the command line."""

import contextlib
import re
import shlex

import pytest

from fastsvm import SVC
from fastsvm.cli import main, make_parser, meaning, parameters
from fastsvm.estimators.registry import ESTIMATORS
from fastsvm.losses import LOSSES

COMMANDS = make_parser()._subparsers._group_actions[0].choices


def said(capsys, *words):
    with pytest.raises(SystemExit) as stop:
        main(words)
    return stop.value.code, capsys.readouterr()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_argument_is_explained(name, capsys):
    assert all(action.help for action in COMMANDS[name]._actions)
    code, shown = said(capsys, name, "--help")
    assert code == 0 and "examples:" in shown.out


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_are_commands(name):
    examples = COMMANDS[name].epilog.split("\n")[1:-1]
    assert examples
    for line in examples:
        program, *words = shlex.split(line)
        assert program == "fastsvm" and make_parser().parse_args(words).run


@pytest.mark.parametrize("name", parameters())
def test_parameters_mean_what_their_docstrings_say(name):
    for model in parameters()[name]:
        words = meaning(model, name)
        assert len(words) > 8 and "default=" not in words and ". " in words, (model, words)
    if name == "gamma":
        assert '"scale"' in meaning("svc", name)


@pytest.mark.parametrize("form", ["--model {}", "--model={}"])
@pytest.mark.parametrize("model", ESTIMATORS)
def test_help_is_that_of_the_model_that_is_named(model, form, capsys):
    """Of its parameters alone, with its defaults, and in no words of other estimators."""
    code, shown = said(capsys, "train", *form.format(model).split(), "--help")
    _, _, text = shown.out.partition("parameters of the model:")
    text = " ".join(text.partition("examples:")[0].split())
    kind = ESTIMATORS[model]
    mine = {name for name, defaults in parameters().items() if model in defaults}
    assert code == 0 and f"of --model {model}; " in text
    assert {name for name in parameters() if f"--{name} " in text or f"--{name}, " in text} == mine
    assert not any(re.search(rf"(?<![\w.]){one.__name__}\b", text) for one in ESTIMATORS.values() if one is not kind)
    if "loss" in mine:
        offered = offered_losses(kind)
        assert len(offered) == {"linear": 3, "sgd": 12, "sgd-regressor": 4}.get(model, 2)
        assert all(f'"{loss}"' in text for loss in offered)


def offered_losses(kind):
    """Return the names of losses that an estimator takes."""
    taken = []
    for loss in [name for name, one in LOSSES.items() if one.__module__.startswith("fastsvm.")]:  # no other test's
        with contextlib.suppress(ValueError):
            kind(loss=loss, **({"solver": "primal"} if kind is SVC and loss != "hinge" else {}))._check_parameters()
            taken.append(loss)
    return taken


def test_without_a_name_help_is_that_of_the_default(capsys):
    assert said(capsys, "train", "--help") == said(capsys, "train", "--model", "svc", "--help")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["train", "a.h5", "--gama", "1"], "there is no option --gama. Did you mean --gamma?"),
        (["train", "a.h5", "--c", "3"], "there is no option --c. Did you mean --C?"),
        (["train", "a.h5", "--max-itr=3"], "there is no option --max-itr=3. Did you mean --max-iter?"),
        (["train", "a.h5", "--xyzzy", "1"], "there is no option --xyzzy."),
        (["train", "a.h5", "b.h5"], "b.h5 is one argument too many."),
        (["train", "a.h5", "--model", "liner"], "Did you mean linear?"),
        (["trian", "a.h5"], "Did you mean train?"),
        (["predict", "a.model"], "the following arguments are required: data, -o/--output."),
        ([], "the following arguments are required: COMMAND."),
    ],
)
def test_mistakes_are_told_in_few_lines(words, told, capsys):
    code, shown = said(capsys, *words)
    assert code == 2 and shown.out == "" and shown.err.count("\n") == 2
    assert told in shown.err and "--help" in shown.err
