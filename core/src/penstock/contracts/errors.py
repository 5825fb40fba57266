"""One tree of errors, grouped by the phase in which the user meets them.

Every error answers four questions: who speaks, what was expected, what came, what to do next.
`exit_code` is what the command line returns: 2 bad configuration, 3 bad environment,
4 a pipeline that failed.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class PenstockError(Exception):
    """Root of all errors that Penstock raises on purpose.

    Args:
        message: What is wrong, in one sentence.
        who: Who speaks: a connector with its distribution, a node, a file with line and column.
        expected: What would have been right.
        got: What came instead; never a secret's value.
        fix: What to do next.
    """

    exit_code = 4
    ephemeral = False

    def __init__(
        self,
        message: str,
        *,
        who: str | None = None,
        expected: str | None = None,
        got: str | None = None,
        fix: str | None = None,
    ) -> None:
        self.message = message
        self.who = who
        self.expected = expected
        self.got = got
        self.fix = fix
        super().__init__(message)

    def __str__(self) -> str:
        head = f"{self.who}: {self.message}" if self.who else self.message
        lines = [head]
        for label, text in (("expected", self.expected), ("got", self.got), ("fix", self.fix)):
            if text is not None:
                lines.append(f"  {label}: {text}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.parts()))

    def parts(self) -> dict[str, str | None]:
        """The answers beside the message, by name: what `--json` prints."""
        return {"who": self.who, "expected": self.expected, "got": self.got, "fix": self.fix}

    def by(self, who: str) -> PenstockError:
        """The same error with a speaker, if it has none yet."""
        if self.who is None:
            self.who = who
        return self


def _rebuild(cls: type[PenstockError], message: str, parts: dict[str, str | None]) -> PenstockError:
    return cls(message, **parts)


class DeclareError(PenstockError):
    """What the user wrote cannot be understood: options, names, YAML."""

    exit_code = 2


class OptionError(DeclareError):
    """An option is unknown, missing, of the wrong type, or contradicts another."""


class UnknownNameError(DeclareError):
    """No connector, coder, transform or step of this name is installed."""


class DocumentError(DeclareError):
    """A pipeline file cannot be read; `who` holds the file, line and column."""


class AnalyseError(PenstockError):
    """What was declared is understood, but cannot work as declared."""

    exit_code = 2


class GraphError(AnalyseError):
    """A cycle, a dangling node, a duplicate name, a consumer too many."""


class TypeMismatchError(AnalyseError):
    """A node gets another type than it wants, and no coder makes it."""


class GuaranteeError(AnalyseError):
    """A source, step or sink cannot keep the guarantee that was declared."""


class SchemaError(AnalyseError):
    """A schema cannot be read, mapped or accepted."""


class SetupError(PenstockError):
    """The machine lacks something: Java, a package, a jar."""

    exit_code = 3


class PluginError(SetupError):
    """An installed plugin cannot be used: it fails to load, or two claim one name."""


class RunError(PenstockError):
    """A pipeline failed while it ran."""


class MaterialiseError(RunError):
    """The analysed pipeline could not be turned into a Spark query."""


class ReadError(RunError):
    """A source could not be read."""


class PositionError(ReadError):
    """A position is foreign, corrupt, or lies in the future of its source."""


class DataLossError(ReadError):
    """Records between two positions are no longer there."""


class WriteError(RunError):
    """A sink could not be written, or its batch not finished."""


class LayoutError(WriteError):
    """A replayed batch has another partition layout than its first attempt."""


class CodecError(RunError):
    """Bytes could not be decoded, or rows not encoded."""


class EphemeralError(RunError):
    """Something that may pass by itself: the caller retries with backoff, jitter and a limit."""

    ephemeral = True


class EphemeralReadError(ReadError, EphemeralError):
    """The source does not answer now; the same read may work later."""


class EphemeralWriteError(WriteError, EphemeralError):
    """The sink does not answer now; the same write may work later."""


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A suggestion for a mistyped word, as the text of a `fix`; None if nothing is near."""
    near = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else None


def no_coder(options: Iterable[str], who: str) -> OptionError:
    """Options of a coder were given at an end that names none."""
    return OptionError(
        "options of a coder are given, and no coder",
        who=who,
        got=", ".join(f"coder.{name}" for name in options),
        fix="name it: coder=...",
    )
