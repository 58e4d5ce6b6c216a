import json

import pytest

from bench.paired.cold import PROGRAM, SUBJECTS


@pytest.mark.parametrize("subject", [SUBJECTS[0], SUBJECTS[4], SUBJECTS[-1]], ids=lambda subject: subject.name)
def test_a_process_measures_its_import_and_its_answer(subject, capsys):
    for module, name in (("fastsvm", subject.name), subject.peer):
        program = PROGRAM.format(module=module, name=name, data=subject.data, parameters=subject.parameters)
        exec(program, {})
        imported, total, checksum = json.loads(capsys.readouterr().out)
        assert 0 <= imported < total
        assert checksum == int(checksum)
