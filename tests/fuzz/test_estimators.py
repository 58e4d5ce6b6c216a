"""Random problems for every estimator: certificates, bits, round trips, other orders, and scikit-learn."""

import faulthandler
import sys
import threading

import pytest
from fuzz.budget import chunks, examine
from fuzz.cases import Case, cases
from fuzz.properties import Find, check

USUAL = 40  # cases in the ordinary suite, for each takes a third of a second
_HANGS = 300  # seconds, many times what the slowest case takes


def code_of(case: Case) -> str:
    """Return a program that runs a case by itself, from the root of the repository."""
    return (
        "import sys; sys.path.insert(0, 'tests')\n"
        "from fuzz.cases import Case, Rows\n"
        "from fuzz.properties import check\n"
        f"check({case!r})"
    )


def run(case: Case) -> None:
    """Check a case; what goes wrong, be it that it does not end, is said with the program that shows it."""
    say = threading.Timer(_HANGS, lambda: print(f"does not end:\n{code_of(case)}", file=sys.__stderr__, flush=True))
    say.daemon = True
    say.start()
    faulthandler.dump_traceback_later(_HANGS + 5, exit=True, file=sys.__stderr__)
    try:
        check(case)
    except Exception as error:
        words = str(error) if isinstance(error, Find) else f"raised: {type(error).__name__}: {error}"
        raise Find(f"{words}\n{code_of(case)}") from error
    finally:
        faulthandler.cancel_dump_traceback_later()
        say.cancel()


@pytest.mark.parametrize(("chunk", "count"), chunks(usual=USUAL))
def test_estimators_keep_what_they_promise(chunk, count):
    examine(cases(), run, chunk, count)
