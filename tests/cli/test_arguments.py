"""Help and errors of the command line."""

import shlex

import pytest

from fastsvm.cli import main, make_parser, meaning, parameters

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
        assert len(words) > 8 and "default=" not in words and words.count(";") >= 1, (model, words)
    if name == "gamma":
        assert '"scale"' in meaning("svc", name)


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
