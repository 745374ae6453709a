"""The English of comments and docstrings (tests/words.py)."""

import textwrap

import pytest

import words


def found(source: str, *, cpp: bool = True) -> list[int]:
    """The lines of the sentences to reword."""
    return [line for line, _ in words.findings(textwrap.dedent(source), cpp)]


def test_the_comments_of_the_product_keep_the_rule(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert words.main([]) == 0, capsys.readouterr().out
    names = {path.relative_to(words.ROOT).parts[0] for path in words.product()}
    assert names >= {"planner", "hooks", "python", "bench", "tests"}


@pytest.mark.parametrize(
    "comment",
    [
        "Of the step that was last recorded; nullptr: there was none.",
        "What is to be printed.",
        "Whether the op is one of them.",
        "Who is called.",
        "Profile of a step. Of the last one.",
        "The script lets go of the storage.",
        "The storage is owed.",
        "Tells the trace.",
        "The planner is told how much.",
        "A table that knows no plan.",
        "Values made again by their op.",
        "It says so.\n//\n// Of all steps.",
        "- Of the first.",
    ],
)
def test_a_sentence_that_breaks_the_rule_is_found(comment: str) -> None:
    assert len(found(f"// {comment}\nint x;\n")) == 1


@pytest.mark.parametrize(
    "comment",
    [
        "Profile of the last fully recorded step, or nullptr.",
        "True if the op is one of them.",
        "Offers the storages. A known one is left out.",
        "The names of `Whether` and `told`, in backquotes.",
        "Often what is kept is small, e.g. Of.",
        "Officially supported. Whatever comes.",
    ],
)
def test_a_sentence_that_keeps_the_rule_passes(comment: str) -> None:
    assert found(f"// {comment}\nint x;\n") == []


def test_sentences_are_joined_across_lines_and_named_by_their_first() -> None:
    text = """\
    // The first
    // sentence. What
    // is second.
    int x;  // of a step
    int y;  // the profile
            // that knows no plan
    """
    assert found(text) == [2, 4, 5]


def test_strings_and_code_are_no_comments() -> None:
    assert found("""const char* text = "// What is told.";  // a text\n""") == []
    assert found("""auto raw = R"(// Of it)"; char c = '"'; // What\n""") == [1]
    assert found("/* Of all\n * devices. It knows none. */\nint x;\n") == [1, 2]
    assert found("x = '# What is told'  # a text\n", cpp=False) == []


def test_docstrings_are_read() -> None:
    text = """\
    class Step:
        \'\'\'Of a run.

        Whether it ends.
        \'\'\'

        def end(self) -> str:
            \'\'\'Ends it.\'\'\'
            return "Of no one"  # what is told
    """
    assert sorted(found(text, cpp=False)) == [2, 4, 9]
