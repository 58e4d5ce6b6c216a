import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fastsvm.formats import convert, recognise
from fastsvm.sources import open_hdf5


def write(folder: Path, text: str, name: str = "rows.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
@pytest.mark.parametrize("header", ["a,b,kind\n", "0,1,kind\n", ""])
def test_delimiters_and_headers(tmp_path, converted, mark, header):
    path = write(tmp_path, (header + "1,2.5,0\n\n-3,4e2,1\n").replace(",", mark))
    stored = converted(path)
    assert stored.X.dtype == np.float32 and stored.y.dtype == np.int64
    assert stored.X.tolist() == [[1, 2.5], [-3, 400]]
    assert stored.y.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("header", "names"),
    [
        ("0,1,kind", ["0", "1"]),
        ("0,1,2", ["0", "1"]),
        (",0,1,2", ["", "0", "1"]),
        ("0,2,1", None),
        ("1,2,3", None),
        ("0,1.0,2", None),
    ],
)
def test_the_names_of_a_data_frame_without_names(tmp_path, header, names):
    """They count the columns. Only the word above words would tell them from a row."""
    width, word = header.count(",") + 1, "no" if header.endswith("kind") else "2"
    row = ",".join(["0.5"] * (width - 1))
    path = write(tmp_path, f"{header}\n{row},{word}\n{row},{word}\n")
    with open_hdf5(convert(path, tmp_path / "out.h5", label=width - 1 if names is None else None).path) as data:
        assert len(data.X) == 2 + (names is None)
        assert names is None or list(data.feature_names) == names


def test_names_that_repeat_are_not_kept(tmp_path):
    path = write(tmp_path, "a,b,a,label\n1,2,3,0\n4,5,6,1\n")
    summary = convert(path, tmp_path / "out.h5", shuffle=False)
    assert summary.notes == ("Several features are named 'a': no names are kept, and columns count by their order.",)
    with open_hdf5(summary.path) as data:
        assert data.feature_names is None and data.X.read(0, 1).values.tolist() == [[1, 2, 3]]
    assert not convert(path, tmp_path / "id.h5", id=2).notes


def test_large_whole_numbers_as_labels(tmp_path, converted):
    lines = [f"1,2,{label}\n" for label in (2**53, 2**53 + 1, -(2**60) - 1)]
    assert converted(write(tmp_path, "".join(lines))).y.tolist() == [2**53, 2**53 + 1, -(2**60) - 1]
    assert converted(write(tmp_path, "".join([*lines, "1,2,3.0\n"]), "mixed.csv")).y.tolist()[1:] == [
        2**53 + 1, -(2**60) - 1, 3,
    ]  # fmt: skip
    lines.append(f"1,2,{2**63}\n")
    assert converted(write(tmp_path, "".join(lines), "more.csv")).y.tolist()[-1] == str(2**63)


def test_digits_with_underscores_are_no_number(tmp_path, refused):
    assert "line 2, column 1: '1_000' is not a number" in refused(write(tmp_path, "1,2,0\n1_000,2,1\n"))


def test_a_word_among_the_features_says_which_column_was_taken_for_the_labels(tmp_path, refused):
    message = refused(write(tmp_path, "x,y,species\n1,0,setosa\n2,1,virginica\n"))
    assert "column 3 (species)" in message and "column 2 (y), by its name" in message and "label=" in message


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_rows_longer_than_a_cell_may_be(tmp_path, converted, mark):
    X = np.arange(60_000).reshape(2, 30_000) + 0.25
    path = write(tmp_path, "".join(mark.join(map(str, [*row, 1])) + "\n" for row in X.tolist()))
    assert path.stat().st_size > 2 * 131_072
    np.testing.assert_array_equal(converted(path).X, X.astype(np.float32))


def test_a_cell_longer_than_one_may_be(tmp_path, refused):
    path = write(tmp_path, "1,2,0\n3," + "4" * 131_073 + ",1\n")
    assert "line 2" in refused(path)
    assert "line 1" in refused(write(tmp_path, "4" * 131_073 + ",1\n"))


def test_words_as_labels(tmp_path, converted):
    path = write(tmp_path, '\ufeffname,"x, y",z\r\n"an ""ä""",1,2\r\nb,3,4\r\n')
    stored = converted(path, label="name")
    assert stored.X.tolist() == [[1, 2], [3, 4]]
    assert stored.y.tolist() == ['an "ä"', "b"]


def test_a_nul_in_a_label(tmp_path, refused):
    path = write(tmp_path, "1,2,no\n3,4,yes\n5,6,y\0s\n")
    assert "rows.csv is damaged or is not text: the label of row 2 contains NUL, 'y\\x00s'" in refused(path)


@pytest.mark.parametrize(
    ("labels", "dtype", "expected"),
    [
        ("1 2 3", np.int64, [1, 2, 3]),
        ("1.0 2 -3", np.int64, [1, 2, -3]),
        ("1.5 2 3", np.float64, [1.5, 2, 3]),
        ("1 a 3", object, ["1", "a", "3"]),
    ],
)
def test_types_of_labels(tmp_path, converted, labels, dtype, expected):
    text = "".join(f"{label},7\n" for label in labels.split())
    stored = converted(write(tmp_path, text), label=0)
    assert stored.y.dtype == dtype and stored.y.tolist() == expected


def test_choice_of_the_label(tmp_path, converted, refused):
    path = write(tmp_path, "a,b,c\n1,2,3\n4,5,6\n")
    assert converted(path, label="b").y.tolist() == [2, 5]
    assert converted(path, label=0).y.tolist() == [1, 4]
    assert converted(path, label=-2).X.tolist() == [[1, 3], [4, 6]]
    assert converted(path, label="-3").y.tolist() == [1, 4]
    unlabelled = converted(path, label=False)
    assert unlabelled.y is None and unlabelled.X.shape == (2, 3)
    assert "a, b, c" in refused(path, label="d")
    assert "label=3" in refused(path, label=3)


@pytest.mark.parametrize(
    ("ids", "stored"),
    [("7 5 6", [7, 5, 6]), ("007 5 6", ["007", "5", "6"]), ("a 1 ", ["a", "1", ""]), ("1.0 2 3", ["1.0", "2", "3"])],
)
def test_identifiers(tmp_path, ids, stored):
    text = "".join(f"{k},{id},{k % 2}\n" for k, id in enumerate(ids.split(" ")))
    path = write(tmp_path, "a,name,kind\n" + text)
    for column in ("name", 1, "1", -2):
        summary = convert(path, tmp_path / "rows.h5", id=column, shuffle=False)
        assert summary.n_features == 1 and summary.labels == "column 3 (kind), the last: 2 classes"
        with open_hdf5(tmp_path / "rows.h5") as data:
            assert data.ids.tolist() == stored and data.X.read(0, 3).values.ravel().tolist() == [0, 1, 2]


def test_a_nul_in_an_identifier(tmp_path, refused):
    path = write(tmp_path, "1,a,0\n3,b\0c,1\n")
    assert "the id of row 1 contains NUL" in refused(path, id=1)


@pytest.mark.parametrize(
    ("first", "told"),
    [("0 1 2 3", True), ("1 2 3", True), ("1 2", False), ("2 3 4", False), ("0 1 3", False), ("1 2 2", False)],
)
def test_a_column_that_counts_the_rows_is_told(tmp_path, first, told):
    text = "".join(f"{k},{0.5 * k * k},no\n" for k in map(int, first.split()))
    summary = convert(write(tmp_path, ",a,kind\n" + text), tmp_path / "rows.h5")
    assert summary.notes == (
        ("column 1 counts the rows and is used as a feature. If it is an index, pass id=0.",) if told else ()
    )
    assert convert(tmp_path / "rows.csv", tmp_path / "rows.h5", id=0).notes == ()


def test_what_is_told_of_the_labels(tmp_path):
    path = write(tmp_path, "a,b,c\n1,2,3.5\n4,5,-6\n")
    for label, told in (("c", "real numbers from -6 to 3.5"), ("b", "2 classes")):
        assert convert(path, tmp_path / "rows.h5", label=label).labels.endswith(f", as asked: {told}")
    assert convert(path, tmp_path / "rows.h5", label=False).labels == "none, as asked"
    assert convert(path, tmp_path / "rows.h5", model_features=3).labels == "none, there are only features of the model"


def test_features_in_the_order_of_a_model(tmp_path):
    path = write(tmp_path, "b,kind,a,no\n1,x,2,9\n3,y,4,8\n")
    convert(path, tmp_path / "rows.h5", feature_names=["a", "b"], id="no", shuffle=False)
    with open_hdf5(tmp_path / "rows.h5") as data:
        assert data.X.read(0, 2).values.tolist() == [[2, 1], [4, 3]] and data.feature_names.tolist() == ["a", "b"]
        assert data.y.tolist() == ["x", "y"] and data.ids.tolist() == [9, 8]


def test_rows_in_random_order_keep_their_number(tmp_path):
    path = write(tmp_path, "".join(f"{k},{k % 3}\n" for k in range(200)))
    for memory in (1, 1 << 28):
        convert(path, tmp_path / "rows.h5", memory=memory)
        with open_hdf5(tmp_path / "rows.h5") as data:
            np.testing.assert_array_equal(data.source_row, data.X.read(0, 200).values.ravel())
            assert (np.diff(data.source_row) < 0).any()
    convert(path, tmp_path / "rows.h5", shuffle=False)
    with open_hdf5(tmp_path / "rows.h5") as data:
        assert data.source_row is None and data.feature_names is None


def test_double_precision(tmp_path, converted):
    stored = converted(write(tmp_path, "0.1,1e300,0\n"), dtype="float64")
    assert stored.X.tolist() == [[0.1, 1e300]]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1,x,3", "line 3, column 2 (b): 'x'"),
        ("1,,3", "line 3, column 2 (b): ''"),
        ("nan,2,3", "line 3, column 1 (a): 'nan'"),
        ("1,1e99,3", "line 3, column 2 (b): '1e99'"),
        ("1,-inf,3", "line 3, column 2 (b): '-inf'"),
        ("1,2", "line 3 has 2 cells"),
        ("1,2,3,4", "line 3 has 4 cells"),
        ("1,2,", "line 3, column 3 (c): ''"),
        ("1,2,nan", "line 3, column 3 (c): 'nan'"),
        ('1,2,"3', "line "),
    ],
)
@pytest.mark.parametrize("memory", [1, 1 << 28])
def test_bad_cells_are_named(tmp_path, refused, line, message, memory):
    path = write(tmp_path, "a,b,c\n1,2,3\n" + line + "\n1,2,3\n")
    assert message in refused(path, memory=memory)


@pytest.mark.parametrize("line", ["?,?,1", ",,setosa", "x,2,setosa", "a,b,1"])
def test_a_broken_first_row_is_no_header(tmp_path, refused, line):
    assert "line 1, column 1" in refused(write(tmp_path, line + "\n1,2,setosa\n"))


def test_the_label_does_not_shift_columns(tmp_path, refused):
    assert "column 3 (c): 'x'" in refused(write(tmp_path, "a,b,c\n1,2,3\n1,2,x\n"), label="b")


def test_unfit_files(tmp_path, refused):
    assert "is empty" in refused(write(tmp_path, ""))
    assert "blank" in refused(write(tmp_path, "\n \n"))
    assert "no rows" in refused(write(tmp_path, "a,b\n"))
    assert "one column" in refused(write(tmp_path, "1\n2\n"))
    path = tmp_path / "rows.csv"
    path.write_bytes(b"1,2\n\xff,3\n")
    assert "UTF-8" in refused(path)


def test_little_memory_gives_the_same_file(tmp_path, converted):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3)).astype(np.float32)
    text = "".join(f"{a!s},{b!s},{c!s},class{k % 11}\n" for k, (a, b, c) in enumerate(X))
    path = write(tmp_path, text)
    one, other = (converted(path, shuffle=True, memory=memory) for memory in (1 << 26, 1 << 13))
    np.testing.assert_array_equal(one.X, other.X)
    np.testing.assert_array_equal(one.y, other.y)
    np.testing.assert_array_equal(converted(path, memory=1).X, X)


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
def test_truncated_gzip(tmp_path, refused, part):
    path = write(tmp_path, "".join(f"{k},{k * k % 17}\n" for k in range(5000)))
    packed = gzip.compress(path.read_bytes())
    path.write_bytes(packed)
    convert(path, tmp_path / "whole.h5")
    path.write_bytes(packed[: int(part * len(packed))])
    assert "truncated or damaged" in refused(path)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.binary(max_size=40), st.text("12,;\t\n\"xe. '_", max_size=30).map(str.encode)))
def test_any_bytes_convert_or_are_refused(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("any")
    path = folder / "rows.csv"
    path.write_bytes(content or b"\n")
    try:
        convert(path, folder / "out.h5")
    except ValueError as error:
        assert path.name in str(error)
        assert [file.name for file in folder.iterdir()] == [path.name]


def test_recognised(tmp_path):
    assert recognise(write(tmp_path, "1\n", "rows.csv")) == "csv"
    assert recognise(write(tmp_path, "1;2\n", "rows.txt")) == "csv"


def times(n=200):
    """Return rows with a Unix time, whose differences are less than what float32 distinguishes, and a small value."""
    rng = np.random.default_rng(0)
    return np.c_[1.7e9 + 20 * rng.integers(0, 9, n), rng.integers(0, 99, n) / 10, np.full(n, 0.1)]


def write_times(folder):
    lines = [f"{time!r},{value!r},{constant!r},1\n" for time, value, constant in times().tolist()]
    return write(folder, "time,value,constant,kind\n" + "".join(lines))


@pytest.mark.parametrize("shuffle", [False, True])
def test_values_that_float32_would_merge_are_stored_in_float64(tmp_path, shuffle):
    path, out = write_times(tmp_path), tmp_path / "rows.h5"
    summary = convert(path, out, shuffle=shuffle)
    assert summary.dtype == np.float64 and "feature 0 (time)" in summary.notes[-1] and "float64" in summary.notes[-1]
    with open_hdf5(out) as data:
        found = data.X.read(0, 200).values
    np.testing.assert_array_equal(np.sort(found, axis=0), np.sort(times(), axis=0))
    assert convert(path, out, dtype="float32").dtype == np.float32  # as asked
    assert {file.name for file in tmp_path.iterdir()} == {"rows.csv", "rows.h5"}


def test_rounding_that_does_not_matter_and_rounding_that_is_not_allowed(tmp_path):
    path = write(tmp_path, "".join(f"{b!r},{c!r},1\n" for b, c in times()[:, 1:].tolist()))
    summary = convert(path, tmp_path / "rows.h5")
    assert summary.dtype == np.float32 and not summary.notes
    assert convert(path, tmp_path / "rows.h5", dtype="exact").dtype == np.float64
    path = write(tmp_path, "0.5,1,0\n0.25,3,1\n", "short.csv")
    assert convert(path, tmp_path / "rows.h5", dtype="exact").dtype == np.float32


@pytest.mark.parametrize("cell", ["", "?", "NA", "nan", " null "])
def test_a_missing_value_says_so(tmp_path, refused, cell):
    message = refused(write(tmp_path, f"a,b,y\n1,2,u\n3,{cell},v\n"))
    assert "line 3, column 2 (b)" in message and "Impute" in message and "label=" not in message


def test_a_word_in_a_feature_says_what_to_do(tmp_path, refused):
    assert "Encode" in refused(write(tmp_path, "a,b,y\n1,red,u\n3,blue,v\n"))


def test_columns_between_the_features_are_left_out(tmp_path, converted):
    path = write(tmp_path, "n,b,m,a,k\nx,1,,2,u\ny,3,,4,v\n")
    stored = converted(path, feature_names=["a", "b"], label="k")
    assert stored.X.tolist() == [[2, 1], [4, 3]] and stored.y.tolist() == ["u", "v"]
    assert converted(path, feature_names=["b", "a"], label=False).X.tolist() == [[1, 2], [3, 4]]


def test_weights(tmp_path, refused):
    convert(write(tmp_path, "a,w,y\n1,.5,0\n2,3,1\n"), tmp_path / "rows.h5", sample_weight="w", shuffle=False)
    with open_hdf5(tmp_path / "rows.h5") as data:
        assert data.sample_weight.tolist() == [0.5, 3] and data.shape == (2, 1)
        assert data.X.origin.label == "y"
    for cell in ("", "-1", "inf", "much"):
        message = refused(write(tmp_path, f"a,w,y\n1,.5,0\n2,{cell},1\n"), sample_weight="w")
        assert "line 3, column 2 (w)" in message and "is not a weight" in message
