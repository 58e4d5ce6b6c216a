from bench.shards import draw
from bench.stored.kept import newest


def test_the_picture_has_a_curve_for_each_case(tmp_path):
    cases = [{"name": name, "results": results} for name, results in newest("shards").items()]
    draw(cases, tmp_path / "a.png")
    assert len(cases) == 4 and (tmp_path / "a.png").stat().st_size > 10_000
