"""The pages of docs/: their code runs, their commands are valid, their links and names exist."""

import ast
import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

import fastsvm
from fastsvm import displays, kernels
from fastsvm.cli import main, make_parser
from fastsvm.estimators.registry import ESTIMATORS
from fastsvm.jobs.training.job_file import _NOT_OF_A_JOB, _SECTIONS, job_of
from fastsvm.losses import LOSSES
from fastsvm.solvers.outer_loop import StopReason

sys.path.insert(0, str(Path(__file__).parents[1] / "docs" / "_ext"))

import house

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = {
    path.relative_to(DOCS).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted(DOCS.rglob("*.md"))
    if not path.relative_to(DOCS).parts[0].startswith("_")
}


def blocks(text, language):
    """Return the code blocks of a page in a language, and in MyST's directive of it, with where they begin."""
    pattern = rf"^```(?:{language}|\{{code-block\}} {language}.*?\n)\n(.*?)^```"
    return [match[1] for match in re.finditer(pattern, text, re.MULTILINE | re.DOTALL)]


def scripts(text):
    """Return the blocks that are meant to be run."""
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands(text):
    """Yield the words after `fastsvm` of each line of the shell blocks of a page."""
    for block in blocks(text, "sh"):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["fastsvm"]:
                yield words[1:]


@pytest.mark.parametrize("name", [name for name, text in PAGES.items() if scripts(text) and name != "start.md"])
def test_code_of_a_page_runs(name, tmp_path, monkeypatch):
    if "fastsvm.dask" in PAGES[name]:
        pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    space, kept = {"__name__": "page"}, dict(LOSSES)
    try:
        for block in scripts(PAGES[name]):
            exec(compile(block, name, "exec"), space)
    finally:  # tests to come know no loss of a lesson
        LOSSES.clear()
        LOSSES.update(kept)


def test_the_page_start_works_from_top_to_bottom(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text, space = PAGES["start.md"], {"__name__": "page"}
    for fence, given, block in re.findall(r"^```(python|sh|\{code-block\} toml)\n(.*?)^```()", text, re.M | re.S):
        if fence == "python":
            exec(compile(given, "start.md", "exec"), space)
        elif fence == "sh":
            for words in commands(f"```sh\n{given}```{block}"):
                assert words == ["demo"] or main(words) == 0, capsys.readouterr().err
        else:
            caption, _, job = given.partition("\n\n")
            Path(caption.removeprefix(":caption: ")).write_text(job, encoding="utf-8")
    assert Path("run", "report.html").exists() and "converged" in capsys.readouterr().out


@pytest.mark.parametrize("name", [name for name, text in PAGES.items() if list(commands(text))])
def test_commands_of_a_page_are_valid(name):
    for words in commands(PAGES[name]):
        make_parser().parse_args(words)


def test_jobs_of_the_pages_are_valid(tmp_path):
    jobs = [block.partition("[data]") for text in PAGES.values() for block in blocks(text, "toml")]
    assert len(jobs) >= 2
    for _, data, rest in jobs:
        job_of(tomllib.loads(data + rest), tmp_path)


def test_links_have_words():
    """Without them a code host and an editor show nothing: only the site puts in the title of the page."""
    others = {
        name: (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
    }
    assert not {name for name, text in (PAGES | others).items() if re.search(r"\[\s*\]\(", text)}


def test_links_lead_to_files_of_the_repository():
    for name, text in PAGES.items():
        folder = (DOCS / name).parent
        targets = re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", text) + re.findall(r"^```\{include\} (.*)$", text, re.M)
        missing = [link for link in targets if "gallery/" not in link and not (folder / link).exists()]
        missing += [path for path in re.findall(r"\{src\}`(.*?)`", text) if not (ROOT / path).exists()]
        assert not missing, name


def test_the_reference_has_every_public_name():
    listed = set(re.findall(r"^   (\w+)$", PAGES["reference/api.md"], re.MULTILINE))
    cluster = pytest.importorskip("fastsvm.dask", exc_type=ImportError)
    losses = {"check_loss", "register_loss"}
    public = {*fastsvm.__all__, *kernels.__all__, *displays.__all__, *cluster.__all__, *losses} - {"kernels"}
    assert listed == public


def test_the_page_of_job_files_has_every_key():
    rows = re.findall(r"^\| (?:`\[(\w+)\]`)? ?\| (.*?) \|", PAGES["reference/job_file.md"], re.MULTILINE)
    found, section = {}, ""
    for name, key in rows:
        section = name or section
        found.setdefault(section, []).append(key.strip("`"))
    for section, keys in _SECTIONS.items():
        assert keys is None or found[section] == list(keys)
    assert all(f"`{name}`" in PAGES["reference/job_file.md"] for name in {*_NOT_OF_A_JOB, *ESTIMATORS})


def test_the_page_of_environment_variables_has_all():
    named = set()
    for path in (ROOT / "fastsvm").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                named |= set(re.findall(r"^(?:NUMBA|FASTSVM|XDG)_[A-Z_]+$|^LOCALAPPDATA$", node.value))
    assert named and not {name for name in named if name not in PAGES["reference/environment.md"]}


def test_words_that_troubleshooting_quotes_are_those_of_the_code():
    sources = " ".join(path.read_text(encoding="utf-8") for path in (ROOT / "fastsvm").rglob("*.py"))
    code = re.sub(r'"\s+f?"', "", re.sub(r"\s+", " ", sources))  # strings that are split over lines
    text = PAGES["troubleshooting.md"]
    quoted = re.findall(r"^\| `(.*?)` \|", text.split("## By warning")[1], re.MULTILINE)
    assert len(quoted) > 10
    assert not [words for words in quoted if not all(part in code for part in words.split("..."))]
    assert {*StopReason, "imported"} == set(re.findall(r"^\| `(\w+)` \|", text.split("## By warning")[0], re.MULTILINE))


def test_the_picture_of_the_house_has_every_part():
    assert house.imports().keys() == house._WORDS.keys()
    assert sum(map(len, house.floors())) == len(house._WORDS)
    assert house.picture().count("<rect") == len(house._WORDS) and "marker-end" in house.picture()


@pytest.mark.parametrize("kind", [*ESTIMATORS.values(), fastsvm.SVCSearch])
def test_the_html_of_an_estimator_links_to_its_page(kind):
    model = kind(fastsvm.SVC(), {"C": [1.0]}) if kind is fastsvm.SVCSearch else kind()
    assert f"/reference/generated/fastsvm.{kind.__name__}.html" in model._repr_html_()
