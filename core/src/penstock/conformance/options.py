"""Clauses about options: documented, checked, and secret where they are secret."""

from __future__ import annotations

import logging
import time
import traceback
from typing import Any

import pytest

from penstock.conformance.clauses import clause
from penstock.conformance.rig import Rig
from penstock.contracts import Configured
from penstock.contracts.errors import OptionError, PenstockError
from penstock.contracts.options import Spec, parse, shown, specs, to_strings

CANARY = "canary-7f3b1c9e"


class OptionClauses:
    """OPT: what a user writes."""

    @clause("OPT-01", "every option is documented")
    def test_opt_01_documented(self, rig: Rig) -> None:
        """Each option of source and sink has a sentence for the user and a type that can be said
        in words; names are lower case with underscores."""
        for side, spec in _specs(rig):
            assert len(spec.doc.split()) >= 2, f"{side}.{spec.name} is not documented"
            assert spec.doc.rstrip().endswith((".", "?", "!")), f"{spec.name}: finish the sentence"
            assert spec.name == spec.name.lower(), f"{spec.name}: use lower case"

    @clause("OPT-02", "a missing option fails by name")
    def test_opt_02_missing(self, rig: Rig) -> None:
        """Leave out any required option: an `OptionError` names it and says what to add. Leave
        out any other that the case gives: `check()` works without it, or raises a
        `PenstockError`; never another exception, somewhere inside."""
        for side, cls, given in _sides(rig):
            required = {spec.name for spec in specs(cls) if spec.required}
            declared = {spec.name for spec in specs(cls) if spec.prefix is None}
            for name in sorted(required | (set(given) & declared)):
                less = {other: value for other, value in given.items() if other != name}
                if name in required:
                    error = _refused(cls, less, f"{side} without {name}")
                    assert name in str(error), f"the error does not name {name}: {error}"
                    continue
                try:
                    _complaint(parse(cls, less))
                except OptionError:
                    continue

    @clause("OPT-03", "an unknown option is refused, with a suggestion")
    def test_opt_03_unknown(self, rig: Rig) -> None:
        """A mistyped option is an `OptionError` that names it and suggests the right one."""
        for side, cls, given in _sides(rig):
            names = [spec.name for spec in specs(cls) if spec.prefix is None]
            if not names:
                _refused(cls, {**given, "surely_unknown": 1}, f"{side} with an unknown option")
                continue
            near = max(names, key=len)
            typo = near + "x"
            error = _refused(cls, {**given, typo: "1"}, f"{side} with {typo}")
            assert typo in str(error), f"the error does not name {typo}: {error}"
            assert near in str(error.fix), f"no suggestion for {typo}: {error}"

    @clause("OPT-04", "contradictory options are refused")
    def test_opt_04_contradiction(self, rig: Rig) -> None:
        """Options that contradict each other are an `OptionError` when the connector is made, not
        later. A connector that overrides `settle` must show one in its case."""
        settles = [cls for _, cls, _ in _sides(rig) if cls.settle is not Configured.settle]
        given = rig.case.contradictory
        if not settles and given is None:
            pytest.skip("OPT-04: its options cannot contradict each other (no settle)")
        assert given is not None, "it overrides settle: the case must give contradictory="
        refused = 0
        for _, cls, options in _sides(rig):
            known = {spec.name for spec in specs(cls)}
            prefixes = tuple(spec.prefix for spec in specs(cls) if spec.prefix is not None)
            if all(n in known or n.startswith(prefixes or ("\0",)) for n in given):
                error = _refused(cls, {**options, **given}, f"{given}")
                assert any(name in str(error) for name in given), f"it names none of them: {error}"
                refused += 1
        assert refused, f"no side has all of the options {sorted(given)}"

    @clause("OPT-05", "wrong credentials fail at check, fast")
    def test_opt_05_credentials(self, rig: Rig) -> None:
        """With wrong credentials `check()` raises a `PenstockError` within 10 seconds that is not
        ephemeral (no retry helps) and does not repeat the credential."""
        if not _secrets(rig):
            pytest.skip("OPT-05: it takes no secret")
        if "wrong_credentials" in rig.case.untried:
            pytest.skip(f"OPT-05: {rig.case.untried['wrong_credentials']}")
        wrong = rig.case.wrong_credentials
        assert wrong is not None, "it takes secrets: the case must give wrong_credentials="
        for side, cls, given in _sides(rig):
            known = {spec.name for spec in specs(cls)}
            value: Any = parse(
                cls, {**given, **{n: v for n, v in wrong.items() if n in known or "." in n}}
            )
            began = time.monotonic()
            error = _complaint(value)
            assert time.monotonic() - began < 10, f"{side}: check() took too long"
            assert error is not None, f"{side}: check() takes wrong credentials"
            assert not error.ephemeral, f"{side}: a wrong credential passes for ephemeral"
            text = "".join(traceback.format_exception(error))
            leaked = [n for n, v in wrong.items() if isinstance(v, str) and v in text]
            assert not leaked, f"{side}: the error repeats {leaked}"

    @clause("OPT-06", "a secret never prints")
    def test_opt_06_secrets(self, rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
        """A canary in every secret option appears in no repr, no shown options, no log and no
        exception text. (That it is absent from Spark's plan, progress, event log and checkpoint
        is tried in SHP-06.)"""
        found = 0
        for side, cls, given in _sides(rig):
            for spec in specs(cls):
                options = {**given}
                if spec.secret:
                    options[spec.name] = CANARY
                elif spec.prefix is not None:
                    options[f"{spec.prefix}sasl.password"] = CANARY
                else:
                    continue
                found += 1
                try:
                    value = parse(cls, options)
                except OptionError as error:
                    _absent(f"{side}.{spec.name}: its error", str(error) + repr(error))
                    continue
                with caplog.at_level(logging.DEBUG):
                    said = _errors_of(value)
                _absent(f"{side}.{spec.name}: repr", repr(value) + str(value))
                _absent(f"{side}.{spec.name}: shown options", str(shown(value)))
                _absent(f"{side}.{spec.name}: logs", caplog.text)
                _absent(f"{side}.{spec.name}: an exception", said)
        if not found:
            pytest.skip("OPT-06: it takes no secret")

    @clause("OPT-07", "options survive Spark's strings")
    def test_opt_07_strings(self, rig: Rig) -> None:
        """Options turned into Spark's strings and parsed again give an equal connector, whatever
        the case of their names."""
        for side, cls, given in _sides(rig):
            value = parse(cls, given)
            strings = to_strings(value)
            assert all(isinstance(text, str) for text in strings.values())
            plain = {spec.name for spec in specs(cls)}
            lowered = {n.lower() if n in plain else n: text for n, text in strings.items()}
            assert parse(cls, lowered) == value, f"the {side} changed on its way through strings"


def _sides(rig: Rig) -> list[tuple[str, Any, dict[str, Any]]]:
    found = [("source", rig.connector.source), ("sink", rig.connector.sink)]
    return [(side, cls, rig.options(side)) for side, cls in found if cls is not None]


def _specs(rig: Rig) -> list[tuple[str, Spec]]:
    return [(side, spec) for side, cls, _ in _sides(rig) for spec in specs(cls)]


def _secrets(rig: Rig) -> bool:
    return any(spec.secret or spec.prefix is not None for _, spec in _specs(rig))


def _refused(cls: Any, given: dict[str, Any], what: str) -> OptionError:
    try:
        parse(cls, given)
    except OptionError as error:
        return error
    raise AssertionError(f"{what} was accepted")


def _complaint(value: Any) -> PenstockError | None:
    try:
        value.check()
    except PenstockError as error:
        return error
    return None


def _errors_of(value: Any) -> str:
    """What it says when it cannot work: the text of the whole chain."""
    try:
        value.check()
    except Exception as error:
        return "".join(traceback.format_exception(error))
    return ""


def _absent(where: str, text: str) -> None:
    assert CANARY not in text, f"{where} shows a secret"
