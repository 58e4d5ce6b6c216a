"""Which columns of a table hold features, labels and identifiers."""

from pathlib import Path

import pytest

from fastsvm.formats.readers.stream import Options
from fastsvm.formats.readers.table_columns import choose_columns

PATH = Path("rows.csv")


def chosen(names, width=None, **options):
    return choose_columns(names, len(names) if names else width, Options(**options), PATH)


@pytest.mark.parametrize("name", ["label", "Labels", "TARGET", "class", "y"])
def test_labels_have_a_usual_name(name):
    found = chosen(("a", name, "b"))
    assert (found.label, found.features, found.feature_names) == (1, (0, 2), ("a", "b"))
    assert found.why == f"column 2 ({name}), by its name"


def test_labels_are_in_the_last_column_otherwise():
    assert chosen(("a", "b", "kind"))[1:4] == ((0, 1), 2, None)
    assert chosen(("a", "b", "kind")).why == "column 3 (kind), the last"
    found = chosen(None, 3)
    assert (found.features, found.label, found.feature_names, found.why) == ((0, 1), 2, None, "column 3, the last")


@pytest.mark.parametrize("label", ["b", 1, "1", -2])
def test_labels_may_be_named(label):
    found = chosen(("y", "b", "c"), label=label)
    assert (found.label, found.features, found.why) == (1, (0, 2), "column 2 (b), as asked")


def test_no_labels():
    found = chosen(("a", "b", "y"), label=False)
    assert (found.label, found.features) == (None, (0, 1, 2))


def test_two_columns_that_may_hold_labels():
    with pytest.raises(ValueError, match=r"column 1 \(class\) and column 3 \(y\) may hold the labels"):
        chosen(("class", "b", "y"))
    assert chosen(("class", "b", "y"), label="y").features == (0, 1)
    assert chosen(("class", "b", "y"), id="class").label == 2


@pytest.mark.parametrize("id", ["name", 0, "0", -3])
def test_identifiers_are_no_features(id):
    assert chosen(("name", "b", "y"), id=id)[1:4] == ((1,), 2, 0)


def test_a_column_is_not_label_and_identifier():
    with pytest.raises(ValueError, match="cannot be both label and id"):
        chosen(("a", "b", "c"), id="c", label="c")
    assert chosen(("a", "b", "c"), id="c").label == 1


def test_weights_of_rows_are_no_features():
    found = chosen(("Sample_Weight", "a", "y"))
    assert (found.features, found.label, found.weight) == ((1,), 2, 0) and "holds the weights" in found.notes[0]
    found = chosen(("weight", "a", "y"), sample_weight="weight")
    assert (found.features, found.label, found.weight) == ((1,), 2, 0)
    found = chosen(("weight", "a", "y"))
    assert (found.features, found.weight) == ((0, 1), None) and "sample_weight='weight'" in found.notes[0]
    assert not chosen(("weight", "a", "y"), feature_names=("weight", "a")).notes
    assert chosen(("a", "y", "sample_weight"), label="sample_weight").weight is None
    with pytest.raises(ValueError, match="cannot be both label and sample_weight"):
        chosen(("a", "b", "y"), sample_weight="y", label="y")


@pytest.mark.parametrize("names", [("a", "b"), None])
def test_as_many_columns_as_features_have_no_labels(names):
    assert chosen(names, 2, model_features=2)[1:3] == ((0, 1), None)
    more = None if names is None else (*names, "kind")
    assert chosen(more, 3, model_features=2)[1:3] == ((0, 1), 2)
    assert chosen(more, 3, model_features=2, id=0)[1:3] == ((1, 2), None)


class TestFeaturesOfAModel:
    def test_they_are_found_by_name_in_any_order(self):
        found = chosen(("b", "kind", "a"), feature_names=("a", "b"))
        assert (found.features, found.label) == ((2, 0), 1)
        assert found.why == "column 2 (kind), the only one that is no feature"

    def test_other_columns_are_none_of_them(self):
        assert chosen(("b", "a"), feature_names=("a", "b"))[1:3] == ((1, 0), None)
        assert chosen(("b", "no", "a"), feature_names=("a", "b"), id="no")[1:4] == ((2, 0), None, 1)
        assert chosen(("b", "no", "a", "y"), feature_names=("a", "b"), id="no").label == 3

    def test_the_label_of_the_training_is_found_by_its_name(self):
        found = chosen(("c", "kind", "a", "y"), feature_names=("a",), model_label="kind")
        assert (found.label, found.why) == (1, "column 2 (kind), as in the training")
        assert "column 1 (c), column 4 (y)" in found.notes[0]
        found = chosen(("c", "a"), feature_names=("a",), model_label="kind")  # the only other column is not it
        assert found.label is None and "column 1 (c)" in found.notes[0]
        assert chosen(("c", "a", "y"), feature_names=("a",), model_label="kind").label == 2

    def test_a_feature_may_have_a_usual_name(self):
        assert chosen(("x", "y"), feature_names=("x", "y"))[1:3] == ((0, 1), None)
        assert chosen(("x", "y", "kind"), feature_names=("x", "y")).label == 2

    def test_unknown_and_missing_columns(self):
        found = chosen(("a", "c", "d", "b"), feature_names=("a", "b"))
        assert (found.features, found.label) == ((0, 3), None)
        assert found.notes == ("Left out, for they are no features of the model: column 2 (c), column 3 (d).",)
        with pytest.raises(ValueError, match=r"no column 'b' \(and 1 more\), a feature of the model"):
            chosen(("a", "d"), feature_names=("a", "b", "c"))
        with pytest.raises(ValueError, match="two columns 'a'"):
            chosen(("a", "a"), feature_names=("a",))

    def test_strict_refuses_what_is_left_out(self):
        with pytest.raises(
            ValueError, match=r"no features of the model: column 2 \(c\)\. Drop them, or leave out strict"
        ):
            chosen(("a", "c", "b"), feature_names=("a", "b"), model_label="kind", strict=True)
        assert chosen(("a", "c", "b"), feature_names=("a", "b"), model_label="c", strict=True).label == 1
        assert chosen(("c", "b"), feature_names=("b",), model_id="c", strict=True).id == 0

    def test_identifiers_of_the_fit_are_found_again(self):
        found = chosen(("a", "who", "b", "kind"), feature_names=("a", "b"), model_id="who", model_label="kind")
        assert (found.features, found.id, found.label, found.notes) == ((0, 2), 1, 3, ())
        assert chosen(("a", "who", "c"), feature_names=("a",), model_id="who", id="c").id == 2
        assert chosen(("a", "b"), feature_names=("a", "b"), model_id="who").id is None
        assert chosen(("who", "b"), model_id="who").id is None  # of a table with other features

    @pytest.mark.parametrize("names", [None, ("0", "1", "2")])
    def test_tables_without_these_names_go_by_their_width(self, names):
        assert chosen(names, 3, feature_names=("a", "b", "c"), model_features=3)[1:3] == ((0, 1, 2), None)


def test_columns_that_do_not_exist():
    with pytest.raises(ValueError, match="must have one column 'd'; its first line has the columns a, b, c"):
        chosen(("a", "b", "c"), label="d")
    with pytest.raises(ValueError, match=r"id=3 is not a column of rows\.csv, which has 3 columns"):
        chosen(("a", "b", "c"), id=3)
    with pytest.raises(ValueError, match="one column, so no features"):
        chosen(("a", "b"), id="b")
