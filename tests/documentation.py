"""Run the blocks of a Markdown page, and compare what they print with what the page shows.

=====================================  =================================================================================
in the page                            what happens
=====================================  =================================================================================
a ``python`` block                     runs in this process; the blocks of a page share their names, in order
a ``console`` block                    its lines after ``$`` run as commands; the lines below are their output
a ``bash`` block                       all its lines run as commands; what they export is there for those that follow
a ``text`` block, or one without a     right below a block that runs: what that block prints
language
a line ``...`` of shown output         stands for any number of lines
``title="name"`` of any block          the block is a file: it is written, not run
``<!-- not run: why -->``              the next block does not run
``<!-- before: command -->``           a command that runs, without output, before the next block
``<!-- at the end: command -->``       a command that runs, without output, after all blocks, also if one fails
a link to a file in ``data``           the file is copied into the folder in which the page runs
a picture                              must be made by the page's blocks, by its file name
=====================================  =================================================================================

A page begins in an empty folder. Whatever a block prints must be shown. An exception or a failing command is allowed
where the page shows its error, and a warning of the library is printed as a line of output.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import belated as bl
from belated.cli import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w-]*)(?P<rest>.*)$")
COMMENT = re.compile(r"^ *<!-- (?P<kind>not run|before|at the end): (?P<text>.+?) -->$")
LINK = re.compile(r"(?P<picture>!?)\[[^\]]*\]\((?P<target>[^)#\s]+)(?:#[^)]*)?\)")
ERROR = re.compile(r"^(\w*Error|Error): ", re.MULTILINE)
SHELL = ("console", "bash")

#: Where the commands of a page keep what they export.
EXPORTS = "./.exports"


@dataclass
class Block:
    """A fenced block: `line` and `end` are the numbers of its fences, from 0."""

    language: str
    title: str | None
    line: int
    end: int
    indent: str
    body: list[str]
    not_run: str | None = None
    before: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(line + "\n" for line in self.body)

    @property
    def runs(self) -> bool:
        return self.title is None and self.not_run is None and self.language in ("python", *SHELL)


def blocks(lines: list[str]) -> Iterator[Block]:
    """Find the fenced blocks of a page."""
    number, comments = 0, []
    while number < len(lines):
        if comment := COMMENT.match(lines[number]):
            comments.append(comment)
        elif fence := FENCE.match(lines[number]):
            indent = fence["indent"]
            end = next(i for i in range(number + 1, len(lines)) if lines[i].rstrip() == indent + "```")
            title = re.search(r'title="([^"]+)"', fence["rest"])
            block = Block(
                language=fence["language"],
                title=title[1] if title else None,
                line=number,
                end=end,
                indent=indent,
                body=[line.removeprefix(indent) for line in lines[number + 1 : end]],
                not_run=next((c["text"] for c in comments if c["kind"] == "not run"), None),
                before=[c["text"] for c in comments if c["kind"] == "before"],
            )
            yield block
            number, comments = end, []
        elif lines[number].strip():
            comments = []
        number += 1


def agree(shown: list[str], printed: list[str]) -> bool:
    """Say whether output is what is shown, where a line `...` stands for any lines."""
    if "..." not in shown:
        return shown == printed
    cut = shown.index("...")
    if shown[:cut] != printed[:cut]:
        return False
    return any(agree(shown[cut + 1 :], printed[start:]) for start in range(cut, len(printed) + 1))


def abridged(shown: list[str], printed: list[str]) -> list[str]:
    """Give new output with as many lines before and after `...` as are shown, if one such line is shown."""
    if shown.count("...") != 1:
        return printed
    before = shown.index("...")
    after = len(shown) - before - 1
    return [*printed[:before], "...", *printed[max(before, len(printed) - after) :]]


def stripped(text: str) -> list[str]:
    """Cut output into lines, without blanks at their ends and empty lines around."""
    return [line.rstrip() for line in text.strip("\n").splitlines()]


@dataclass
class Page:
    """A page that runs; `differences` says where it shows something else than what is printed."""

    path: Path
    lines: list[str] = field(init=False)
    differences: list[str] = field(default_factory=list)
    _edits: list[tuple[int, int, list[str]]] = field(default_factory=list)
    _names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})

    def __post_init__(self) -> None:
        self.lines = self.path.read_text(encoding="utf-8").splitlines()

    @property
    def blocks(self) -> list[Block]:
        return list(blocks(self.lines))

    def links(self, *, pictures: bool) -> list[str]:
        """Give the targets of links, or of pictures, that are files of the project and not in a block."""
        inside = {number for block in self.blocks for number in range(block.line, block.end + 1)}
        text = "\n".join(line for number, line in enumerate(self.lines) if number not in inside)
        return [
            link["target"]
            for link in LINK.finditer(text)
            if bool(link["picture"]) == pictures and "://" not in link["target"]
        ]

    def run(self) -> None:
        """Run every block in the current folder, which is empty."""
        for target in self.links(pictures=False):
            if Path(target).parent.name == "data":
                shutil.copy(self.path.parent / target, Path(target).name)
        page_blocks = self.blocks
        try:
            self._run(page_blocks)
        finally:
            for ending in filter(None, map(COMMENT.match, self.lines)):
                if ending["kind"] == "at the end":
                    self._command(ending["text"], page_blocks[-1], shown=[])
        for picture in self.links(pictures=True):
            if page_blocks and not Path(Path(picture).name).exists() and not self._is_shared(picture):
                self.differences.append(f"no block makes the picture {picture}")

    def _run(self, page_blocks: list[Block]) -> None:
        for block, following in zip(page_blocks, [*page_blocks[1:], None], strict=False):
            if block.title is not None and block.not_run is None:
                Path(block.title).parent.mkdir(parents=True, exist_ok=True)
                Path(block.title).write_text(block.text, encoding="utf-8")
            if not block.runs:
                continue
            for command in block.before:
                self._command(command, block, shown=[])
            if block.language == "console":
                self._console(block)
            else:
                self._with_output_below(block, self._output_of(block, following))

    def refresh(self) -> None:
        """Write what was printed, and the pictures that were made, into the page."""
        for start, end, lines in sorted(self._edits, reverse=True):
            self.lines[start:end] = lines
        self.path.write_text("\n".join(self.lines) + "\n", encoding="utf-8")
        for picture in self.links(pictures=True):
            if Path(Path(picture).name).exists():
                shutil.copy(Path(picture).name, self.path.parent / picture)

    def _is_shared(self, picture: str) -> bool:
        """Say whether another page makes the picture."""
        return (
            any(path != self.path and Path(picture).name in path.read_text(encoding="utf-8") for path in PAGES)
            and (self.path.parent / picture).exists()
        )

    def _output_of(self, block: Block, following: Block | None) -> Block | None:
        """Give the block below that holds the output, if the page shows any."""
        if following is None or following.language not in ("", "text") or following.title is not None:
            return None
        between = self.lines[block.end + 1 : following.line]
        return following if not any(line.strip() for line in between) else None

    def _with_output_below(self, block: Block, output: Block | None) -> None:
        shown = stripped(output.text) if output else []
        if block.language == "python":
            printed = stripped(self._python(block, shown))
        else:
            commands = block.text.replace("\\\n", " ").splitlines()
            printed = stripped("".join(self._command(command, block, shown) for command in commands if command.strip()))
        if agree(shown, printed):
            return
        self._differ(block, shown, printed)
        printed = abridged(shown, printed)
        if output:
            self._edits.append((output.line + 1, output.end, [block.indent + line for line in printed]))
        else:
            new = ["", "```text", *printed, "```"]
            self._edits.append((block.end + 1, block.end + 1, [block.indent + line if line else "" for line in new]))

    def _console(self, block: Block) -> None:
        parts: list[tuple[list[str], list[str]]] = []
        for line in block.body:
            if line.startswith("$ ") or (parts and not parts[-1][1] and parts[-1][0][-1].endswith("\\")):
                if line.startswith("$ "):
                    parts.append(([], []))
                parts[-1][0].append(line)
            else:
                parts[-1][1].append(line)
        result: list[str] = []
        for command, output in parts:
            shown = stripped("\n".join(output))
            line = "\n".join(command).removeprefix("$ ").replace("\\\n", " ")
            printed = stripped(self._command(line, block, shown))
            if not agree(shown, printed):
                self._differ(block, shown, printed)
                blank = [""] if output and not output[-1].strip() else []
                output = [*([""] if output and not output[0].strip() else []), *abridged(shown, printed), *blank]
            result += [*command, *output]
        if result != block.body:
            self._edits.append((block.line + 1, block.end, [(block.indent + line).rstrip() for line in result]))

    def _differ(self, block: Block, shown: list[str], printed: list[str]) -> None:
        self.differences.append(
            "\n".join([f"{self.path.name}, line {block.line + 1} shows", *shown, "but it prints", *printed])
        )

    def _python(self, block: Block, shown: list[str]) -> str:
        out = io.StringIO()
        with contextlib.redirect_stdout(out), _warnings_to(out):
            try:
                code = compile("\n" * (block.line + 1) + block.text, self.path.name, "exec")
                exec(code, self._names)  # noqa: S102
            except Exception as error:
                if not ERROR.search("\n".join(shown)):
                    raise
                out.write(f"{type(error).__name__}: {error}\n")
        return out.getvalue()

    def _command(self, line: str, block: Block, shown: list[str]) -> str:
        words = shlex.split(line, comments=True)
        if words[0] == "belated" and not re.search(r"[|;<>&$~]", re.sub(r"'[^']*'|\"[^\"]*\"", "", line)):
            code, printed = _belated(words)
        else:
            code, printed = _shell(line)
        if code and not ERROR.search("\n".join(shown)):
            raise AssertionError(f"{self.path.name}, line {block.line + 1}: `{line}` ends with {code}:\n{printed}")
        return printed


@contextlib.contextmanager
def _warnings_to(out: io.StringIO) -> Iterator[None]:
    """Print warnings of the library as lines of output."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", bl.BelatedWarning)
        warnings.showwarning = lambda message, category, *_: print(f"{category.__name__}: {message}", file=out)
        yield


def _belated(words: list[str]) -> tuple[int, str]:
    """Run the command in this process."""
    out, arguments = io.StringIO(), sys.argv
    sys.argv = words
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            app.run()
    except SystemExit as end:
        return int(end.code or 0), out.getvalue()
    finally:
        sys.argv = arguments
    return 0, out.getvalue()


def _shell(line: str) -> tuple[int, str]:
    """Run a line in a shell that finds the command and the library of this process."""
    path = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    libraries = [str(Path(bl.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    if line.startswith("export "):
        line += f"; export -p > {EXPORTS}"
    done = subprocess.run(
        ["bash", "-c", line],  # noqa: S607
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1800,
        check=False,
        env={
            **os.environ,
            "PROJECT": str(ROOT),
            "BASH_ENV": EXPORTS,
            "PATH": os.pathsep.join(path),
            "PYTHONPATH": os.pathsep.join(libraries).strip(os.pathsep),
        },
    )
    return done.returncode, done.stdout
