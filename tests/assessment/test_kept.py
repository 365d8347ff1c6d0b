import fcntl
import json

import pytest

from corpo_rl.assessment.kept import kept_samples, model_folders
from corpo_rl.errors import DataError, UsageError
from corpo_rl.records import Sample, SampleRequest, SamplingSettings

GREEDY = SamplingSettings(max_new_tokens=8, temperature=0.0)
ABOUT = {"model": "m", "seed": 0}
REQUESTS = [SampleRequest(f"ood/a/b c/{order}/{number}", f"{order}?", 1) for order in ("ab", "ba") for number in (0, 1)]


class Counting:
    def __init__(self, *, fails_after=None):
        self.asked = []
        self.fails_after = fails_after

    def __call__(self, requests, settings):
        for request in requests:
            if len(self.asked) == self.fails_after:
                raise RuntimeError("gone")
            self.asked.append(request.key)
            yield Sample(request.key, f"text of {request.key} \u2028 \ud800", "length")


def kept(folder, stream, *, requests=REQUESTS, settings=GREEDY, about=ABOUT, **more):
    return list(kept_samples(stream, folder, about=about, **more)(requests, settings))


def test_nothing_is_asked_twice_and_texts_come_back_as_they_were(tmp_path):
    stream = Counting()
    first = kept(tmp_path / "m", stream)
    assert sorted(first, key=str) == sorted(kept(tmp_path / "m", stream), key=str)
    assert len(stream.asked) == 4
    row = json.loads((tmp_path / "m" / "samples.jsonl").read_text().splitlines()[0])
    assert (row["split"], row["item_id"], row["order"], row["sample"]) == ("ood", "a/b c", "ab", 0)
    assert json.loads((tmp_path / "m" / "settings.json").read_text()) == {
        "model": "m",
        "seed": 0,
        "max_new_tokens": 8,
        "temperature": 0.0,
        "top_p": 1.0,
    }


def test_each_completion_is_on_disk_before_it_is_handed_on(tmp_path):
    path = tmp_path / "m" / "samples.jsonl"
    for number, _ in enumerate(kept_samples(Counting(), tmp_path / "m", about=ABOUT)(REQUESTS, GREEDY), start=1):
        assert path.read_bytes().count(b"\n") == number


def test_what_came_before_a_failure_is_kept(tmp_path):
    with pytest.raises(RuntimeError):
        kept(tmp_path / "m", Counting(fails_after=3))
    stream = Counting()
    assert len(kept(tmp_path / "m", stream)) == 4
    assert stream.asked == [REQUESTS[3].key]


def test_a_torn_line_is_dropped(tmp_path):
    path = tmp_path / "m" / "samples.jsonl"
    kept(tmp_path / "m", Counting())
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    stream = Counting()
    kept(tmp_path / "m", stream)
    assert stream.asked == [REQUESTS[3].key]
    assert path.read_bytes() == whole


@pytest.mark.parametrize("line", ["[]", "{", '{"split": "ood"}', "{}", '{"sample": true}'])
def test_a_broken_line_is_named(tmp_path, line):
    path = tmp_path / "m" / "samples.jsonl"
    kept(tmp_path / "m", Counting(), requests=REQUESTS[:1])
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(DataError, match=r"samples.jsonl:2: expected a kept completion .* begin anew with --force"):
        kept(tmp_path / "m", Counting())
    assert len(kept(tmp_path / "m", Counting(), force=True)) == 4


def test_other_settings_and_other_texts_are_refused(tmp_path):
    kept(tmp_path / "m", Counting())
    other = SamplingSettings(max_new_tokens=9, temperature=0.0)
    with pytest.raises(UsageError, match="was begun with max_new_tokens 8, not 9; choose another --out, or begin"):
        kept(tmp_path / "m", Counting(), settings=other)
    with pytest.raises(UsageError, match="was begun with model 'm', not 'n'"):
        kept(tmp_path / "m", Counting(), about={**ABOUT, "model": "n"})
    with pytest.raises(UsageError, match="was begun with another text of pair 'ood/a/b c/ab/0'"):
        kept(tmp_path / "m", Counting(), requests=[SampleRequest(REQUESTS[0].key, "other", 1)])
    stream = Counting()
    kept(tmp_path / "m", stream, settings=other, force=True)
    assert len(stream.asked) == 4
    kept(tmp_path / "m", stream, settings=other)
    assert len(stream.asked) == 4


def test_completions_without_settings_are_not_touched(tmp_path):
    kept(tmp_path / "m", Counting())
    (tmp_path / "m" / "settings.json").unlink()
    with pytest.raises(UsageError, match=r"holds completions but no settings\.json"):
        kept(tmp_path / "m", Counting())
    (tmp_path / "m" / "settings.json").write_text("[]")
    with pytest.raises(DataError, match="expected a JSON object, found list"):
        kept(tmp_path / "m", Counting())
    (tmp_path / "m" / "settings.json").write_text("{")
    with pytest.raises(DataError, match="expected the settings of an evaluation, found"):
        kept(tmp_path / "m", Counting())
    assert (tmp_path / "m" / "samples.jsonl").read_bytes().count(b"\n") == 4


def test_two_at_once_are_refused(tmp_path):
    kept(tmp_path / "m", Counting(), requests=REQUESTS[:1])
    with (tmp_path / "m" / "samples.jsonl").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="another evaluation is at work here"):
            kept(tmp_path / "m", Counting())
    assert len(kept(tmp_path / "m", Counting())) == 4, "the lock is gone with its holder"


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="could not be written"):
        kept(tmp_path / "file" / "m", Counting())


def test_folders_are_named_after_their_models_and_kept_apart(tmp_path):
    names = ["./runs/a", "runs/a", "http://h:1/v1", "..", "x" * 300]
    folders = model_folders(tmp_path, names)
    assert folders["./runs/a"].name == "runs-a"
    assert folders["runs/a"].name.startswith("runs-a-")
    assert folders["http://h:1/v1"].name == "http-h-1-v1"
    assert folders[".."].name == "model"
    assert len(folders["x" * 300].name) == 60
    assert all(folder.parent == tmp_path for folder in folders.values())
    for name, folder in folders.items():
        kept(folder, Counting(), about={"model": name})
    assert model_folders(tmp_path, names[::-1]) == folders
    assert model_folders(tmp_path, names[1:2]) == {"runs/a": folders["runs/a"]}


def test_a_model_named_twice_is_refused(tmp_path):
    with pytest.raises(UsageError, match="expected each model once, found 'a' twice"):
        model_folders(tmp_path, ["a", "b", "a"])


def test_folders_belong_to_their_models_from_call_to_call(tmp_path):
    (first,) = model_folders(tmp_path, ["./runs/a"]).values()
    kept(first, Counting(), about={"model": "./runs/a"})
    (second,) = model_folders(tmp_path, ["runs/a"]).values()
    assert second != first, "it holds the completions of another model"
    kept(second, Counting(), about={"model": "runs/a"})
    for path in first.iterdir():
        path.unlink()
    first.rmdir()
    assert model_folders(tmp_path, ["runs/a"]) == {"runs/a": second}, "its completions lie there"
