"""Jobs on a cluster: the same folder, log, report and resumption as on one machine."""

import json
from importlib.util import find_spec

import pytest
from runs import Interrupter, assert_same_model, interrupted

from fastsvm.cli import main
from fastsvm.jobs.runner import RunFolder, resume, run, status
from fastsvm.jobs.training.job_file import read_job

pytestmark = [pytest.mark.dask, pytest.mark.skipif(find_spec("distributed") is None, reason="needs Dask")]

JOB = """
[data]
train = "{file}"
test = "{file}"
[model]
kind = "linear"
loss = "squared_hinge"
C = 1e-6
tol = 1e-3
[cluster]
{cluster}
"""


@pytest.fixture(scope="module")
def scheduler():
    from distributed import Client

    with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0") as client:
        yield client.scheduler.address


def job_file(folder, file, cluster):
    path = folder / "job.toml"
    path.write_text(JOB.format(file=file, cluster=cluster))
    return path


@pytest.fixture(scope="module")
def whole(scheduler, file, tmp_path_factory):
    """Return the folder of a run that nothing interrupted."""
    folder = tmp_path_factory.mktemp("cluster")
    path = job_file(folder, file, 'scheduler = "tcp://nobody:1"\nshards = 2')
    assert main(["run", str(path), "--folder", str(folder / "run"), "--scheduler", scheduler]) == 0
    return folder / "run"


def test_the_result_and_the_report(whole):
    folder = RunFolder(whole)
    result = folder.result
    assert result["converged"] and result["accuracy"] > 0.6 and result["n_test"] == 3000
    assert result["passes"] == pytest.approx(1) and result["read_mb_per_second"] > 0
    assert sum(one["rows"] for one in result["workers"].values()) == 3000
    for one in result["workers"].values():
        assert one["computing"] > 0 and one["waiting"] >= 0
    shown = folder.report_file.read_text(encoding="utf-8")
    assert "<h2>Workers</h2>" in shown and all(address in shown for address in result["workers"])
    assert status(whole)["state"] == "done"


def test_a_stopped_run_resumes_on_another_cluster_with_the_same_bits(whole, scheduler, file, tmp_path, monkeypatch):
    job = read_job(job_file(tmp_path, file, "local = {workers = 2}\nshards = 2"), scheduler=scheduler)
    folder = tmp_path / "run"
    monkeypatch.setattr(Interrupter, "saved_at", 3)
    interrupted(job, folder, monkeypatch)
    assert status(folder)["state"] == "interrupted" and status(folder)["checkpoint"]
    stored = json.loads((folder / "job.json").read_text())
    stored["cluster"]["scheduler"] = "inproc://gone"
    (folder / "job.json").write_text(json.dumps(stored))
    resume(folder, scheduler)
    assert_same_model(folder, whole)


def test_workers_of_its_own(whole, file, tmp_path):
    job = read_job(job_file(tmp_path, file, "local = {workers = 1}\nshards = 2"), ["output.report=false"])
    run(job, tmp_path / "run")
    assert_same_model(tmp_path / "run", whole)


WRONG = {
    "no cluster": ("shards = 2", r"needs scheduler, an address, or local"),
    "two clusters": ('scheduler = "tcp://a:1"\nlocal = {workers = 2}', "needs scheduler"),
    "an unknown key": ("local = {worker = 2}", "Did you mean 'workers'"),
    "no workers": ("local = {workers = 0}", "at least 1"),
    "a number for a table": ("local = 2", "a table such as"),
    "held-out rows": ('scheduler = "tcp://a:1"\n[data]\ntrain = "a.h5"\nholdout = 0.1', "data.test, not with holdout"),
    "a search": ('scheduler = "tcp://a:1"\n[search]\nC = [1, 2]', "not with search"),
    "a kernel": ('scheduler = "tcp://a:1"\n[model]\nkind = "svc"', "must be one of linear"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_cluster_that_cannot_be_is_refused(name, tmp_path):
    words, message = WRONG[name]
    data = "" if "[data]" in words else '\n[data]\ntrain = "a.h5"\n'
    (tmp_path / "job.toml").write_text(f"[cluster]\n{words}{data}")
    with pytest.raises(ValueError, match=message):
        read_job(tmp_path / "job.toml")


def test_a_scheduler_that_does_not_answer(file, tmp_path, capsys):
    dask = pytest.importorskip("dask")
    path = job_file(tmp_path, file, 'scheduler = "tcp://127.0.0.1:1"')
    with dask.config.set({"distributed.comm.timeouts.connect": "0.2s"}):
        assert main(["run", str(path), "--folder", str(tmp_path / "run")]) == 1
        assert main(["resume", str(tmp_path / "run"), "--scheduler", "tcp://127.0.0.1:2"]) == 1
    said = capsys.readouterr().err
    assert "127.0.0.1:1" in said and "127.0.0.1:2" in said and "resume with" in said
