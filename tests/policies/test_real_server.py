from corpo_rl.policies.opening import open_policy
from corpo_rl.records import SampleRequest, SamplingSettings
from tests.policies.serving import needs_server, smollm2_server

PROMPTS = ("What is 2+2?", "Name a colour.", "Write one word.", "Is water wet? Answer in a sentence.")


@needs_server
def test_greedy_completions_of_a_served_model_are_those_of_the_model_itself(tmp_path):
    requests = [SampleRequest(str(number), prompt, seed=number) for number, prompt in enumerate(PROMPTS)]
    settings = SamplingSettings(max_new_tokens=16, temperature=0.0)
    local = {one.key: (one.text, one.finish_reason) for one in open_policy("smollm2").stream(requests, settings)}
    with smollm2_server(tmp_path / "serve.log") as url:
        served = {one.key: (one.text, one.finish_reason) for one in open_policy(url).stream(requests, settings)}
    assert served == local
    assert "4" in local["0"][0]
