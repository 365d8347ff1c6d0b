"""Which tokens a step is made of: from ranges of characters, ranges of tokens, or the turns of a conversation."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from corpo_rl.core.steps import NO_STEP
from corpo_rl.errors import DataError

UNITS: tuple[str, ...] = ("characters", "tokens", "turns")
"""What the ranges of steps count."""

_HALF_A_CHARACTER = "\ufffd"
"""What a tokenizer writes for bytes that are no whole character."""


class TokenText(NamedTuple):
    """A completion as text, and where in it each token stands."""

    text: str
    """Special tokens left out."""
    starts: list[int]
    """Characters of the text that come before each token."""
    special: list[bool]
    """Whether each token is a special one, such as the end of the sequence: it has no characters."""


class Steps(NamedTuple):
    """The steps of one completion."""

    step_of_token: list[int]
    """Step of each token, from 0, or `NO_STEP`."""
    rewards: list[float]
    """Reward of each step, NaN where nobody could tell."""


def token_text(ids: Sequence[int], tokenizer: Any) -> TokenText:
    """The text of a completion, and where in it each token stands.

    Tokens are decoded one by one. Where that does not give the text, as with a character made of several tokens, they
    are decoded in small windows, and as a last resort from the beginning for each token. A token that completes no
    character stands where the character does.

    Args:
        ids: Tokens of a completion.
        tokenizer: Of transformers.

    Example:
        >>> from corpo_rl.policies.mini import build_tokenizer
        >>> tokenizer = build_tokenizer()
        >>> token_text([*tokenizer("59;84").input_ids, tokenizer.eos_token_id], tokenizer)
        TokenText(text='59;84', starts=[0, 1, 2, 3, 4, 5], special=[False, False, False, False, False, True])
    """
    special_ids = set(tokenizer.all_special_ids)

    def decode(some: Sequence[int]) -> str:
        return str(tokenizer.decode(list(some), skip_special_tokens=True))

    text = decode(ids)
    pieces = {token: decode([token]) for token in set(ids)}
    starts = _starts([pieces[token] for token in ids], text) or _starts(_windows(ids, decode), text)
    if starts is None:
        starts, so_far = [], 0
        for place in range(len(ids)):
            starts.append(so_far)
            so_far = max(so_far, _n_common(decode(ids[: place + 1]), text))
    return TokenText(text, starts, [token in special_ids for token in ids])


def _starts(pieces: Sequence[str], text: str) -> list[int] | None:
    """Characters before each piece, or None where the pieces are not the text."""
    if "".join(pieces) != text:
        return None
    starts, so_far = [], 0
    for piece in pieces:
        starts.append(so_far)
        so_far += len(piece)
    return starts


def _windows(ids: Sequence[int], decode: Any) -> list[str]:
    """What each token adds to the text, a character at its last token, with the tokens before it for context."""
    pieces, context, read = [], 0, 0
    for place in range(len(ids)):
        before, after = decode(ids[context:read]), decode(ids[context : place + 1])
        whole = not after.endswith(_HALF_A_CHARACTER) or place == len(ids) - 1
        pieces.append(after[len(before) :] if whole else "")
        if whole:
            context, read = read, place + 1
    return pieces


def _n_common(one: str, other: str) -> int:
    """Characters that both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def steps_of_characters(found: TokenText, steps: Sequence[Any], *, where: str) -> Steps:
    """Steps from half-open ranges of characters, (start, end, reward) each, in order and apart.

    A token belongs to the step that holds its first character. A special token, such as the end of the sequence, closes
    the step that holds the character before it; unless there is an empty range (p, p) where it stands, whose step it
    then is: the decision to stop.

    Args:
        found: The completion's text and tokens.
        steps: Ranges within the text. A reward of None or NaN is one that nobody could give.
        where: How an error names the completion.

    Raises:
        DataError: A step is not of this form, or out of order, or reaches beyond the text.

    Example:
        >>> from corpo_rl.policies.mini import build_tokenizer
        >>> tokenizer = build_tokenizer()
        >>> found = token_text([*tokenizer("59;84").input_ids, tokenizer.eos_token_id], tokenizer)
        >>> steps_of_characters(found, [(0, 3, 1.0), (3, 5, None)], where="completion 0")
        Steps(step_of_token=[0, 0, 0, 1, 1, 1], rewards=[1.0, nan])
    """
    ranges, rewards = _ranges(steps, length=len(found.text), unit="characters", where=where)
    of_character = [NO_STEP] * (len(found.text) + 1)  # one more, for where the text ends
    of_stop: dict[int, int] = {}
    for step, (start, end) in enumerate(ranges):
        of_character[start:end] = [step] * (end - start)
        if start == end:
            of_stop[start] = step
    step_of_token = []
    for start, special in zip(found.starts, found.special, strict=True):
        if special:
            step_of_token.append(of_stop.get(start, of_character[start - 1] if start else NO_STEP))
        else:
            step_of_token.append(of_character[start])
    return Steps(step_of_token, rewards)


def steps_of_tokens(n_tokens: int, steps: Sequence[Any], *, where: str) -> Steps:
    """Steps from half-open ranges of tokens, (start, end, reward) each, in order and apart.

    Args:
        n_tokens: Tokens of the completion, without padding.
        steps: Ranges within them. A reward of None or NaN is one that nobody could give.
        where: How an error names the completion.

    Raises:
        DataError: A step is not of this form, or out of order, or reaches beyond the completion.

    Example:
        >>> steps_of_tokens(4, [(0, 1, 0.5), (2, 4, 1.0)], where="completion 0")
        Steps(step_of_token=[0, -1, 1, 1], rewards=[0.5, 1.0])
    """
    ranges, rewards = _ranges(steps, length=n_tokens, unit="tokens", where=where)
    step_of_token = [NO_STEP] * n_tokens
    for step, (start, end) in enumerate(ranges):
        step_of_token[start:end] = [step] * (end - start)
    return Steps(step_of_token, rewards)


def turns(tool_mask: Sequence[int]) -> list[tuple[int, int]]:
    """The turns of the policy as half-open ranges of tokens: the runs of 1 in TRL's `tool_mask`, which is 0 for tools.

    Example:
        >>> turns([1, 1, 0, 0, 1, 0, 1])
        [(0, 2), (4, 5), (6, 7)]
    """
    edges = [0, *tool_mask, 0]
    starts = [place for place in range(len(tool_mask)) if edges[place + 1] and not edges[place]]
    ends = [place + 1 for place in range(len(tool_mask)) if edges[place + 1] and not edges[place + 2]]
    return list(zip(starts, ends, strict=True))


def steps_of_turns(tool_mask: Sequence[int], rewards: Sequence[Any], *, where: str) -> Steps:
    """Steps from one reward for each turn.

    Args:
        tool_mask: 1 for the policy's tokens, 0 for those of tools or of an environment.
        rewards: Reward of each turn; None or NaN where nobody could give one.
        where: How an error names the completion.

    Raises:
        DataError: There are more or fewer rewards than turns, or one is not a finite number.
    """
    ranges = turns(tool_mask)
    if len(rewards) != len(ranges):
        raise DataError(
            f"{where}: expected a reward for each of {len(ranges)} turns, got {len(rewards)}; the step function is "
            "given the text of each turn as `turns`"
        )
    steps = [(start, end, reward) for (start, end), reward in zip(ranges, rewards, strict=True)]
    return steps_of_tokens(len(tool_mask), steps, where=where)


def _ranges(steps: Sequence[Any], *, length: int, unit: str, where: str) -> tuple[list[tuple[int, int]], list[float]]:
    ranges: list[tuple[int, int]] = []
    rewards: list[float] = []
    done = 0
    for number, step in enumerate(steps):
        try:
            start, end, reward = step
            start, end, reward = int(start), int(end), float("nan") if reward is None else float(reward)
        except (TypeError, ValueError) as error:
            raise DataError(f"{where}, step {number}: expected (start, end, reward), got {step!r}") from error
        if not done <= start <= end <= length:
            raise DataError(
                f"{where}, step {number}: expected a range within {done} and {length} {unit}, after the step before "
                f"it, got {start} to {end}"
            )
        if abs(reward) == float("inf"):
            raise DataError(f"{where}, step {number}: expected a finite reward or None, got {reward}")
        ranges.append((start, end))
        rewards.append(reward)
        done = end
    return ranges, rewards
