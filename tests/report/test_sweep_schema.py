import copy
import json
import re

import jsonschema
import pytest

from corpo_rl.errors import DataError
from corpo_rl.report.sweep_schema import SWEEP_SCHEMA, check_sweep, sweep_json

from .sweeps import SWEEPS, document_of


@pytest.mark.parametrize("name", SWEEPS)
def test_documents_fit_by_another_implementation_too(name):
    jsonschema.Draft202012Validator.check_schema(SWEEP_SCHEMA)
    jsonschema.Draft202012Validator(SWEEP_SCHEMA).validate(SWEEPS[name])


def broken(change):
    document = copy.deepcopy(SWEEPS["usual"])
    change(document)
    return document


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("trials"), "results: no field 'trials'"),
        (lambda d: d.update(schema="corpo-rl.sweep/0"), "results.schema: .* written by another version"),
        (lambda d: d["trials"][2].update(number=7), r"results.trials\[2\].number: expected 2, got 7"),
        (lambda d: d["trials"][5].update(selection=d["trials"][0]["selection"]), r"trials\[5\].selection: expected"),
        (lambda d: d["trials"][0].update(selection=None), r"trials\[0\].selection: expected figures of finished"),
        (lambda d: d["trials"][0].update(state="lost"), r"trials\[0\].state: expected one of 'finished', 'failed'"),
        (lambda d: d.update(best=5), r"results.best: expected the number of a finished trial, got 5"),
        (lambda d: d.update(best=99), r"results.best: expected the number of a finished trial, got 99"),
        (lambda d: d["splits"].pop("held_out"), r"results.splits: expected the part 'held_out'"),
        (lambda d: d["trials"][0]["held_out"].update(value="high"), r"held_out.value: expected number or null"),
    ],
)
def test_what_does_not_fit_is_named(change, message):
    with pytest.raises(DataError, match=message):
        check_sweep(broken(change))


def test_undefined_becomes_null_and_bytes_are_the_same():
    document = document_of(2)
    document["trials"][0]["held_out"]["low"] = float("nan")
    text = sweep_json(document)
    assert json.loads(text)["trials"][0]["held_out"]["low"] is None
    assert not re.search(r"NaN|Infinity", text)
    assert text == sweep_json(dict(reversed(document.items())))
