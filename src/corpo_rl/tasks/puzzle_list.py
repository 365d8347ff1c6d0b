"""Puzzles of reasoning-gym: those whose score is graded correctness, and why the others are not taken.

All of it comes from reading the scorers of version 0.1.25, and from trying them on wrong answers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Entry = Mapping[str, Any]
"""What reasoning-gym makes of a puzzle: `question`, `answer`, `metadata`."""


@dataclass(frozen=True)
class Puzzle:
    """A puzzle that is taken."""

    score: str
    """What its score means, and, where that is much, what a guess gets on the easy puzzles (mean, share correct)."""
    easy: Mapping[str, Any]
    """Settings of `train` and `in_domain`."""
    hard: Mapping[str, Any]
    """Settings of `ood`."""
    is_kept: Callable[[Entry], bool] = field(default=lambda _: True)
    """Whether a puzzle is asked at all."""
    is_hard: Callable[[Entry], bool] = field(default=lambda _: True)
    """Whether a puzzle made with the hard settings is beyond the easy ones; where they only name the largest size."""
    one_answer: bool = False
    """Its scorer gives full marks, or more, to some answers that go on after the right one; just one text is right."""
    several_right: bool = False
    """Another answer than the reference may be right: a near miss is then a cut answer, not one with a changed end."""
    unlike_by_answer: bool = False
    """Puzzles with the same answer are the same puzzle."""


PUZZLES: Mapping[str, Puzzle] = {
    "figlet_font": Puzzle(
        "0.1 for each letter in its place, of a word of 3 to 7 drawn in large letters; 1 for all of it",
        easy={"min_word_len": 3, "max_word_len": 5},
        hard={"min_word_len": 6, "max_word_len": 7},
        unlike_by_answer=True,
    ),
    "futoshiki": Puzzle(
        "0.9 of the share of right cells, given ones too; 1 for the whole board in its form; all ones get 0.41, 0 %",
        easy={"min_board_size": 4, "max_board_size": 4, "min_difficulty": 0, "max_difficulty": 1},
        hard={"min_board_size": 5, "max_board_size": 5, "min_difficulty": 1, "max_difficulty": 2},
    ),
    "game_of_life": Puzzle(
        "share of right cells; an empty board gets 0.60, 0 %",
        easy={"grid_size_x": 6, "grid_size_y": 6, "filled_cells": 14, "simulation_steps": 1},
        hard={"grid_size_x": 8, "grid_size_y": 8, "filled_cells": 26, "simulation_steps": 2},
        one_answer=True,
    ),
    "knights_knaves": Puzzle(
        "0.3 + 0.7 of the share of people who are told right, 0 for none; calling all truthful gets 0.66, 15 %",
        easy={"n_people": 3},
        hard={"n_people": 4},
    ),
    "mini_sudoku": Puzzle(
        "0.9 of the share of right cells, given ones too; 1 for the whole board in its form; all ones get 0.60, 0 %",
        easy={"min_empty": 6, "max_empty": 8},
        hard={"min_empty": 10, "max_empty": 12},
    ),
    "polynomial_equations": Puzzle(
        "mean of exp(-10 error) over the roots named, less 0.5 for each root too many or too few",
        easy={"min_degree": 1, "max_degree": 2, "min_terms": 2, "max_terms": 3},
        hard={"min_degree": 3, "max_degree": 3, "min_terms": 3, "max_terms": 4},
        is_kept=lambda entry: any(entry["metadata"]["real_solutions"]),  # of half of them 0 is all there is
    ),
    "quantum_lock": Puzzle(
        "1 for the shortest sequence of buttons, 0.5 for a longer one that reaches the target",
        easy={"difficulty": 4},
        hard={"difficulty": 10},
        is_hard=lambda entry: entry["metadata"]["difficulty"]["difficulty"] > 4,
        several_right=True,
    ),
    "rectangle_count": Puzzle(
        "0.64, 0.48, 0.32 or 0.16 for a count that is 1, 2, 3 or 4 off; always 2 gets 0.69, 24 %",
        easy={"width": 20, "height": 20, "max_rectangles": 4},
        hard={"width": 30, "height": 30, "max_rectangles": 8},
        is_hard=lambda entry: entry["metadata"]["solution"] > 4,
    ),
    "shortest_path": Puzzle(
        "1 for a shortest path, 0.5 for a longer one; saying that there is none gets 0.13, 13 %",
        easy={"min_rows": 4, "max_rows": 5, "min_cols": 4, "max_cols": 5, "p_blocked": 0.25},
        hard={"min_rows": 7, "max_rows": 8, "min_cols": 7, "max_cols": 8, "p_blocked": 0.3},
        several_right=True,
    ),
    "spell_backward": Puzzle(
        "share of letters in their place",
        easy={"min_word_len": 3, "max_word_len": 7},
        hard={"min_word_len": 8, "max_word_len": 10},
        one_answer=True,
    ),
    "sudoku": Puzzle(
        "0.9 of the share of right cells, given ones too; 1 for the whole board in its form; all ones get 0.65, 0 %",
        easy={"min_empty": 20, "max_empty": 30},
        hard={"min_empty": 40, "max_empty": 50},
    ),
    "time_intervals": Puzzle(
        "1 - error / 24 hours, or / 100 days where dates are given; 8 hours, or 40 days, get 0.78, 1 %",
        easy={"task_types": ["time", "time_seconds", "date"]},
        hard={"task_types": ["time_ms", "datetime", "datetime_tz"]},
    ),
    "word_ladder": Puzzle(
        "1 for a ladder of any length, halved for each step that is no word; letter by letter gets 0.51, 22 %",
        easy={"min_word_length": 3, "max_word_length": 3},
        hard={"min_word_length": 4, "max_word_length": 4},
        several_right=True,
    ),
    "word_sorting": Puzzle(
        "share of words in their place, at least 0.2 for the same words in any order, which gets 0.25, 1 %",
        easy={"min_words": 4, "max_words": 8},
        hard={"min_words": 12, "max_words": 16},
        one_answer=True,
    ),
}
"""The puzzles that are taken."""

_BINARY = "its score is right or wrong, and what lies between is for form"
_LENGTH = "its score is right or wrong, and what lies between is for the right answer with other text around it"
_EVALUATES = "its scorer evaluates the answer as Python, so a policy could run code"
_TEXT = "it is made from one short text, so that every split would hold the same sentences"

_BINARY_NAMES = (
    "ab advanced_geometry arc_agi bitwise_arithmetic circuit_logic color_cube_rotation cryptarithm "
    "decimal_arithmetic decimal_chain_sum dice family_relationships fraction_simplification game_of_life_halting "
    "graph_color group_anagrams gsm_symbolic jugs kakurasu knight_swap needle_haystack number_format number_sorting "
    "palindrome_generation palindrome_partitioning path_star pool_matrix power_function rearc rush_hour self_reference "
    "sokoban survo zebra_puzzles"
)
_LENGTH_NAMES = (
    "acre aiw arc_1d base_conversion basic_arithmetic bf binary_alternation caesar_cipher chain_sum count_bits "
    "count_primes course_schedule gcd isomorphic_strings largest_island lcm leg_counting letter_counting "
    "list_functions mahjong_puzzle manipulate_matrix maze modulo_grid number_filtering number_sequence products "
    "ransom_note rotate_matrix rotten_oranges simple_equations simple_geometry string_manipulation string_splitting "
    "string_synthesis syllogism tsumego word_sequence_reversal"
)
_EVALUATES_NAMES = (
    "binary_matrix countdown intermediate_integration n_queens polynomial_multiplication puzzle24 simple_integration "
    "spiral_matrix string_insertion"
)

REFUSED: Mapping[str, str] = {
    **dict.fromkeys(_BINARY_NAMES.split(), _BINARY),
    **dict.fromkeys(_LENGTH_NAMES.split(), _LENGTH),
    **dict.fromkeys(_EVALUATES_NAMES.split(), _EVALUATES),
    **dict.fromkeys(("emoji_mystery", "letter_jumble", "sentence_reordering"), _TEXT),
    "boxnet": "its scorer fails on plans that are no list of moves, which a policy often writes",
    "calendar_arithmetic": "its score mixes closeness with credit for form, and passes 1 where the answer is -1",
    "codeio": "its score is how alike two JSON texts are, with credit for form",
    "coin_flip": "its score is the share of leading digits: the answer 0 gets 1 for nearly every probability",
    "complex_arithmetic": "its scorer gives 1 to the answer nan",
    "composite": "it is a mixture; name its puzzles with commas between them",
    "prime_factorization": "repeating the number gets 0.5, and its scorer fails on other text",
    "propositional_logic": "it has no reference answer to prove it with",
    "rubiks_cube": "its scorer writes out R999999999 turn by turn, so an answer could use up the memory",
    "tower_of_hanoi": "there are 90 puzzles of it, too few for splits",
}
"""The other puzzles of the package, and why they are not taken."""
