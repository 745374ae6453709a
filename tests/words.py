"""Checks the English of comments and docstrings in C++ and Python files.

Usage: words.py [FILE...]; without files, every file of the product.

A comment is a sentence with a subject and a verb, in the present tense. This program
prints FILE:LINE for each sentence that describes a thing by a word of OPENINGS, or that
contains a phrase of BANNED, and exits with 1 if there is any.
"""

import ast
import io
import os
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHECK = ROOT / "tests" / "check.sh"  # lists the folders of the product
CPP = (".cc", ".h", ".c")

OPENINGS = re.compile(r"(Of|What|Whether|Who(?:se)?)\b")
FRAGMENT = re.compile(r"(of|what|whether|who(?:se)?)\b")  # often behind code
BANNED = re.compile(
    r"\b(lets? go|(?:is|are) owed|tells|told|knows|thinks|(?:makes|made) again)\b",
    re.IGNORECASE,
)
# Comments, and the literals in which // is text.
CPP_TOKEN = re.compile(
    r'R"(?P<mark>[^ ()\\\t\n]{0,16})\(.*?\)(?P=mark)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'"
    r"|(?P<line>//[^\n]*)"
    r"|(?P<block>/\*.*?\*/)",
    re.DOTALL,
)
# A mark before a blank and a capital or a name in backquotes.
SENTENCE_END = re.compile(r"(?<!e\.g)(?<!i\.e)[.!?][)\"'`]*\s+(?=[(\"']*[A-Z`])")
NEW_PARAGRAPH = re.compile(r"\s*$|\s*([-*]|\d+\.)\s")

Line = tuple[int, str]
Comment = tuple[int, int, bool, list[str]]  # line, column, behind code, text


def cpp_comments(source: str) -> Iterator[Comment]:
    """Each comment, without its marks."""
    for token in CPP_TOKEN.finditer(source):
        if (text := token["line"] or token["block"]) is None:
            continue
        begin = source.rfind("\n", 0, token.start()) + 1
        lines = text.removesuffix("*/" if token["block"] else "").split("\n")
        yield (
            source.count("\n", 0, token.start()) + 1,
            token.start() - begin,
            bool(source[begin : token.start()].strip()),
            [re.sub(r"^\s*(/\*+|//+!?<?|\*)", "", line) for line in lines],
        )


def python_comments(source: str) -> Iterator[Comment]:
    """Each comment, without its mark."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            number, column = token.start
            behind_code = bool(token.line[:column].strip())
            yield number, column, behind_code, [token.string.lstrip("#:!")]


def docstrings(source: str) -> Iterator[list[Line]]:
    """Yields the lines of each docstring of the module, its classes and functions."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            first = node.body[0]
            assert isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            lines = str(first.value.value).split("\n")
            yield [(first.lineno + i, line) for i, line in enumerate(lines)]


def blocks(comments: Iterator[Comment]) -> Iterator[list[Line]]:
    """Comments below each other as one; a line of code begins another block."""
    block: list[Line] = []
    last = -1
    for number, column, behind_code, lines in comments:
        is_next = bool(block) and block[-1][0] == number - 1
        if block and (not is_next or behind_code or column != last):
            yield block
            block = []
        last = column
        block += [(number + i, line) for i, line in enumerate(lines)]
    if block:
        yield block


def sentences(block: list[Line]) -> Iterator[Line]:
    """Each sentence with the line that it begins on."""
    paragraph: list[Line] = []
    for number, line in [*block, (0, "")]:
        if NEW_PARAGRAPH.match(line) and paragraph:
            text = "\n".join(line for _, line in paragraph)
            begin = 0
            for end in [*(m.end() for m in SENTENCE_END.finditer(text)), len(text)]:
                row = text.count("\n", 0, begin)
                yield paragraph[row][0], " ".join(text[begin:end].split())
                begin = end
            paragraph = []
        if line.strip():
            paragraph.append((number, re.sub(r"^\s*([-*]|\d+\.)\s", "", line)))


def findings(source: str, is_cpp: bool) -> list[Line]:
    """Line and text of each sentence against the rule."""
    found = [*blocks(cpp_comments(source) if is_cpp else python_comments(source))]
    found += [] if is_cpp else docstrings(source)
    return [
        (number, sentence)
        for block in found
        for i, (number, sentence) in enumerate(sentences(block))
        if OPENINGS.match(sentence.lstrip("(\"'`"))
        or (i == 0 and FRAGMENT.match(sentence))
        or BANNED.search(re.sub("`[^`]*`", "", sentence))
    ]


def product() -> list[Path]:
    """Every C++ and Python file of the folders that CHECK lists."""
    folders = re.findall(r"^FOLDERS=\((.*)\)$", CHECK.read_text(), re.M)[0].split()
    files = [path for name in folders for path in sorted((ROOT / name).rglob("*.*"))]
    return [
        path
        for path in files
        if path.suffix in (*CPP, ".py", ".pyi")
        and not path.relative_to(ROOT).as_posix().startswith("tests/data/")
    ]


def main(arguments: list[str]) -> int:
    """Prints the findings; 1 if there are any."""
    found = 0
    for path in [Path(argument) for argument in arguments] or product():
        for number, sentence in findings(path.read_text("utf-8"), path.suffix in CPP):
            found += 1
            print(f"{os.path.relpath(path)}:{number}: {sentence}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
