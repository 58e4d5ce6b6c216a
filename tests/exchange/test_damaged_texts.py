"""Damaged texts are refused with the line, in bounded time and memory."""

import re
import tracemalloc

import numpy as np
import pytest
from model_texts.written import LIBLINEAR, LIBSVM

import fastsvm

KERNEL, LINEAR = LIBSVM["c_svc of three classes"][0], LIBLINEAR["s4"][0]
DAMAGES = {
    "another word": (KERNEL, "svm_type", "svm_kind", "line 1: there is no key word svm_kind"),
    "another machine": (KERNEL, "c_svc", "d_svc", "line 1: svm_type is d_svc, but must be one of c_svc"),
    "another kernel": (KERNEL, "rbf", "cauchy", "line 2: kernel_type is cauchy"),
    "no gamma": (KERNEL, "gamma 0.3", "coef0 0.3", "lacks gamma"),
    "gamma no number": (KERNEL, "gamma 0.3", "gamma x", "line 3: there should be a number, found x"),
    "gamma infinite": (KERNEL, "gamma 0.3", "gamma inf #", "line 3: one word should follow gamma"),
    "gamma below 0": (KERNEL, "gamma 0.3", "gamma -0.3", "gamma"),
    "gamma twice": (KERNEL, "nr_class 3", "gamma 3", "line 4: gamma is there a second time"),
    "more classes": (KERNEL, "nr_class 3", "nr_class 4", "line 6: rho has 3 values, 4 classes ask for 6"),
    "very many classes": (KERNEL, "nr_class 3", "nr_class 2000000000", "line 6: rho has 3 values"),
    "classes as words": (KERNEL, "nr_class 3", "nr_class many", "line 4: there should be whole numbers"),
    "a number beyond all": (KERNEL, "nr_class 3", "nr_class " + "9" * 5000, "line 4: there should be whole numbers"),
    "fewer vectors": (KERNEL, "total_sv 12", "total_sv 13", "line 8: nr_sv has the sum 12, total_sv is 13"),
    "a label twice": (KERNEL, "label 3 -1 2", "label 3 -1 3", "line 7: a label is there twice"),
    "a negative count": (KERNEL, "nr_sv 4 4 4", "nr_sv 9 7 -4", "line 8: numbers from 0"),
    "one vector less": (KERNEL, KERNEL.splitlines()[-1], "", "line 5: total_sv says 12 support vectors, there are 11"),
    "no SV": (KERNEL, "SV\n", "", "line 9: there is no key word"),
    "a pair without colon": (KERNEL, "1:-1.6", "1-1.6", "line 10: there should be whole numbers"),
    "a pair without value": (KERNEL, "1:-1.6", "1:", "line 10: there should be a number"),
    "a pair of three": (KERNEL, "1:-1.6", "1:2:3", "line 10: there should be a number, found 2:3"),
    "a value that is no number": (KERNEL, "1:-1.6", "1:nan", "line 10: nan is not a finite number"),
    "a number of Python": (KERNEL, "1:-1.6", "1:1_0", "line 10: there should be a number"),
    "an index below 0": (KERNEL, "1:-1.6", "-1:1", "line 10: numbers from 0"),
    "an index beyond all": (KERNEL, "1:-1.6", "99999999999:1", "line 10: "),
    "indices that fall": (KERNEL, "2:-2.6 3:-0.5", "3:-2.6 2:-0.5", "line 10: the indices of features do not increase"),
    "code": (KERNEL, "1:-1.6", "1:__import__('os')", "line 10: there should be a number"),
    "no bytes of text": (KERNEL, "1:-1.6", "\0\x7f:1", "line 10"),
    "another solver": (LINEAR, "MCSVM_CS", "MCSVM", "line 1: solver_type is MCSVM"),
    "fewer classes": (LINEAR, "nr_class 3", "nr_class 2", "line 3: 2 classes ask for as many different labels"),
    "more features": (LINEAR, "nr_feature 4", "nr_feature 5", "line 4: nr_feature and bias ask for 6 lines"),
    "very many features": (LINEAR, "nr_feature 4", "nr_feature 2000000000", "line 4: nr_feature"),
    "fewer features": (LINEAR, "nr_feature 4", "nr_feature 3", "line 11: nr_feature and bias ask for 4"),
    "no bias": (LINEAR, "bias 2\n", "", "lacks bias"),
    "a label that is a word": (LINEAR, "label 3", "label a", "line 3: there should be whole numbers"),
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def machine_code(tmp_path_factory):
    """Load what the first use of a function takes, which is no memory of a text."""
    path = tmp_path_factory.mktemp("texts") / "a.model"
    for text in (KERNEL, KERNEL.replace("3:-0.5", "99:-0.5", 1), LINEAR):
        path.write_text(text)
        fastsvm.load_libsvm(path)


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_texts_are_refused_with_the_line(name, tmp_path):
    text, old, new, words = DAMAGES[name]
    assert old in text
    path = tmp_path / "a.model"
    path.write_text(text.replace(old, new, 1))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=re.escape(words)) as caught:
            fastsvm.load_libsvm(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("text", [KERNEL, LINEAR], ids=["LIBSVM", "LIBLINEAR"])
def test_texts_that_end_early_or_have_a_wrong_byte_are_read_or_refused(text, tmp_path):
    path = tmp_path / "a.model"
    refused = 0
    rng = np.random.default_rng(0)
    for _ in range(150):
        content = bytearray(text.encode())
        place = int(rng.integers(len(content)))
        content[place] = int(rng.integers(256))
        path.write_bytes(content[: place + 1] if rng.random() < 0.3 else content)
        try:
            fastsvm.load_libsvm(path)
        except ValueError as error:
            refused += 1
            assert str(path) in str(error)
    assert refused > 20


def test_an_index_far_beyond_takes_no_memory(tmp_path):
    path = tmp_path / "a.model"
    path.write_text(KERNEL.replace("3:-0.5", "2147483647:-0.5", 1))
    tracemalloc.start()
    try:
        assert fastsvm.load_libsvm(path).n_features_in_ == 2147483647
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_files_that_are_no_text_of_a_model_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file"):
        fastsvm.load_libsvm(tmp_path / "none")
    with pytest.raises(ValueError, match="is a folder"):
        fastsvm.load_libsvm(tmp_path)
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(ValueError, match="ends before the support vectors"):
        fastsvm.load_libsvm(tmp_path / "empty")


@pytest.mark.parametrize("text", [KERNEL, LINEAR], ids=["kernel", "linear"])
def test_a_byte_order_mark_is_skipped(text, tmp_path):
    (tmp_path / "a").write_text(text)
    (tmp_path / "b").write_text(text, encoding="utf-8-sig")
    assert repr(fastsvm.load_libsvm(tmp_path / "a")) == repr(fastsvm.load_libsvm(tmp_path / "b"))
