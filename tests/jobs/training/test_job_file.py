"""Job files: what is asked for, and what is refused with which words."""

import pytest

from fastsvm.jobs.training.job_file import parse_seconds, read_job

GOOD = """
[data]
train = "train.h5"
holdout = 0.25
seed = 3
[model]
kind = "svc"
C = 10
gamma = 0.1
[search]
C = [1, 10]
gamma = [0.1, 1.0]
folds = 3
[limits]
memory = "100MB"
threads = 1
time = "1h 30min"
[checkpoint]
every = "10s"
[output]
report = false
"""


def written(tmp_path, text):
    path = tmp_path / "job.toml"
    path.write_text(text)
    return path


def test_all_keys(tmp_path):
    job = read_job(written(tmp_path, GOOD))
    assert job.train == str((tmp_path / "train.h5").resolve()) and job.test is None
    assert (job.holdout, job.seed, job.kind) == (0.25, 3, "svc")
    assert job.parameters == {"C": 10, "gamma": 0.1}
    assert job.grid == {"C": [1, 10], "gamma": [0.1, 1.0]} and job.folds == 3
    assert (job.memory, job.threads, job.seconds, job.checkpoint_seconds) == ("100MB", 1, 5400.0, 10.0)
    assert job.report is False


def test_what_is_usual(tmp_path):
    job = read_job(written(tmp_path, '[data]\ntrain = "a.h5"\n'))
    assert (job.kind, job.holdout, job.checkpoint_seconds, job.report) == ("svc", 0.0, 30.0, True)
    assert not job.parameters and not job.grid and job.seconds is None


def test_flags_override_keys(tmp_path):
    flags = ["model.C=100", "data.holdout=0.5", "limits.time=2h", "model.kernel=linear", "output.report=true"]
    job = read_job(written(tmp_path, GOOD), flags)
    assert job.parameters == {"C": 100, "gamma": 0.1, "kernel": "linear"}
    assert (job.holdout, job.seconds, job.report) == (0.5, 7200.0, True)


@pytest.mark.parametrize("flag", ["C=1", "model.C", ".C=1", "model.=1"])
def test_a_flag_that_is_none(flag, tmp_path):
    with pytest.raises(ValueError, match=r"section\.key=value"):
        read_job(written(tmp_path, GOOD), [flag])


MALFORMED = {
    "not TOML": ("[data\ntrain = 1", "is not a TOML file"),
    "an unknown section": ('[dat]\ntrain = "a.h5"', r"\[dat\] is not a section. Did you mean 'data'"),
    "an unknown key": ('[data]\ntrain = "a.h5"\nholdot = 0.1', r"data\.holdot is not a key. Did you mean 'holdout'"),
    "a parameter of no model": ('[data]\ntrain = "a.h5"\n[model]\nkernl = "rbf"', "'kernel'"),
    "a parameter of another model": ('[data]\ntrain = "a.h5"\n[model]\nkind = "linear"\ngamma = 1', "of kind 'linear'"),
    "an unknown model": ('[data]\ntrain = "a.h5"\n[model]\nkind = "svm"', r"model\.kind must be one of .*'svm'"),
    "no training data": ("[data]\nholdout = 0.1", r"no data\.train"),
    "two ways to measure": ('[data]\ntrain = "a.h5"\ntest = "b.h5"\nholdout = 0.1', "leave out one"),
    "a share beyond one": ('[data]\ntrain = "a.h5"\nholdout = 1.5', "at least 0 and below 1, found 1.5"),
    "a word for a number": ('[data]\ntrain = "a.h5"\nseed = "x"', "an int of at least 0"),
    "a number for a word": ("[data]\ntrain = 5", "must be a word, found 5"),
    "a section that is none": ("data = 5", r"data must be a section \[data\]"),
    "a time that is none": ('[data]\ntrain = "a.h5"\n[limits]\ntime = "soon"', "a time must be seconds"),
    "a memory that is none": ('[data]\ntrain = "a.h5"\n[limits]\nmemory = "much"', r"limits\.memory"),
    "an empty list": ('[data]\ntrain = "a.h5"\n[search]\nC = []', "list of values"),
    "a search over nothing": ('[data]\ntrain = "a.h5"\n[search]\nfolds = 3', "has no parameter"),
    "a word for a choice": ('[data]\ntrain = "a.h5"\nstandardize = "yes"', "standardize"),
    "no labels to learn": ('[data]\ntrain = "a.csv"\nlabel = false', "of kind 'svc' learns labels"),
    "an unknown format": ('[data]\ntrain = "a.h5"\nformat = "cvs"', r"\('csv'\?\)"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_files_are_refused(name, tmp_path):
    text, message = MALFORMED[name]
    with pytest.raises(ValueError, match=message):
        read_job(written(tmp_path, text))


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="no job file"):
        read_job(tmp_path / "job.toml")


@pytest.mark.parametrize(
    ("text", "seconds"), [(5, 5.0), ("90", None), ("1.5h", 5400.0), ("2 min", 120.0), ("1d", 86400.0), ("500ms", 0.5)]
)
def test_times(text, seconds):
    if seconds is None:
        with pytest.raises(ValueError, match="a time must be"):
            parse_seconds(text)
    else:
        assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", [0, -1, True, "1y", "h", "1h x", "", None, float("inf")])
def test_times_that_are_none(text):
    with pytest.raises(ValueError, match="time"):
        parse_seconds(text)
