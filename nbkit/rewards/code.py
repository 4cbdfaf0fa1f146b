"""The reward of a program: unit tests that it cannot reach.

A solution and its tests run in two sandboxes. The tests call the solution through this process,
which passes lines on and looks into none; a call carries plain data there and plain data back. So
the solution never sees a test or an expected value, and nothing that it does to its own
interpreter (leave early, print a marker, replace built-ins, overload ``==``) touches the verdict.
What remains is what no sandbox can close: tests that are too weak.
"""

import ast
import builtins
import contextlib
import json
import os
import select
import time
from dataclasses import dataclass
from types import CodeType
from typing import Any

from nbkit.rewards._calls import VERDICT
from nbkit.rewards.sandbox import Sandbox, borrowed, check_limits, status_of

__all__ = ["CodeVerdict", "code_score", "code_verdict"]

MAX_MESSAGE = 4 * 2**20  # bytes of one call or answer
GRACE_S = 1.0  # for the tests to give their verdict after a fault of the solution
MAX_NOISE = 2**20  # bytes that solution and tests may print


@dataclass(frozen=True)
class CodeVerdict:
    """What the tests found.

    Attributes:
        score: 1.0 or 0.0, or with ``partial`` the share of the assert statements that held.
        passed: assert statements that were reached and held each time.
        total: assert statements that count: all, or those reached if the tests ran to their end.
        problem: why the tests ended early, or "".
        layers: protections in force.

    """

    score: float
    passed: int
    total: int
    problem: str
    layers: tuple[str, ...]


class _StoppedError(Exception):
    """The solution is at fault: it overran, left, or wrote too much."""


def code_score(
    solution: str,
    tests: str,
    *,
    timeout_s: float = 5.0,
    partial: bool = False,
    memory_mb: int = 512,
    allow_unprotected: bool = False,
    sandboxes: tuple[Sandbox, Sandbox] | None = None,
) -> float:
    """Return 1.0 if a solution passes its tests, else 0.0; see ``code_verdict``."""
    return code_verdict(
        solution,
        tests,
        timeout_s=timeout_s,
        partial=partial,
        memory_mb=memory_mb,
        allow_unprotected=allow_unprotected,
        sandboxes=sandboxes,
    ).score


def code_verdict(
    solution: str,
    tests: str,
    *,
    timeout_s: float = 5.0,
    partial: bool = False,
    memory_mb: int = 512,
    allow_unprotected: bool = False,
    sandboxes: tuple[Sandbox, Sandbox] | None = None,
) -> CodeVerdict:
    """Run the tests against a solution and return what they found.

    Args:
        solution: source that defines functions (or a class ``Solution`` whose methods are taken for
            functions). Arguments and results are plain data: None, numbers, strings, bytes, lists,
            tuples, sets, dictionaries, ranges. Arguments arrive as copies. What a function that
            returns None makes of them goes back, as many problems ask to work in place. Of one
            that returns a value it does not: ``assert f(x) == sorted(x)`` would pass for an f that
            empties x.
        tests: source of assert statements, bare or in functions that the source itself calls. Names
            that it uses and does not define are those of the solution, built-ins excepted; a helper
            that decides the verdict belongs into the tests.
        timeout_s: seconds of the clock for the solution and all tests together.
        partial: the share of the assert statements that hold, in place of 1.0 or 0.0. Statements
            after the point where a solution hangs or leaves count as failed.
        memory_mb: MiB for the solution, and as much for the tests.
        allow_unprotected: as in ``run_code``.
        sandboxes: two that wait (see ``pool``); they are used up.

    Raises:
        ValueError: tests without an assert statement, with a syntax error, that hand over what
            is not plain data, or that end without an assert and without a look at the solution
            (a ``check`` that nobody calls): no fault of the solution, and so no score.
        SandboxUnavailableError: below the minimum of protection.
        RuntimeError: the tests' own sandbox failed.

    """
    limits = check_limits(solution, timeout_s, memory_mb, 0)
    code, names, sites = _prepare(tests)
    ours, theirs = sandboxes or (None, None)
    with (
        borrowed(ours, allow_unprotected=allow_unprotected) as defendant,
        borrowed(theirs, allow_unprotected=allow_unprotected) as court,
    ):
        end = time.monotonic() + timeout_s
        defendant.begin("solution", solution, limits)
        court.begin("tests", (code, names), limits)
        exchange = _Exchange(defendant, court, end)
        layers = defendant.layers
        try:
            found = exchange.run()
        except _StoppedError as stop:
            return CodeVerdict(0.0, 0, sites, str(stop), layers)
    if "not_testable" in found:
        raise ValueError(f"tests: {found['not_testable']}")
    finished, passed = bool(found["finished"]), int(found["passed"])
    if finished and not found["reached"] and not found["asked"]:
        raise ValueError(
            "tests: they end without reaching an assert and without using the solution; call the "
            "function that holds the asserts"
        )
    total = int(found["reached"]) if finished else sites
    right = finished and passed == total > 0
    share = passed / total if total else 0.0
    problem = str(found["problem"]) or ("" if total else "no assert statement was reached")
    score = share if partial else float(right)
    return CodeVerdict(score, passed, total, problem, layers)


def _prepare(tests: str) -> tuple[CodeType, list[str], int]:
    """The compiled tests, the names that they use, and the number of assert statements."""
    if not isinstance(tests, str):
        raise ValueError(f"tests must be a string; got {type(tests).__name__}")
    try:
        tree = ast.parse(tests)
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        sites = _Sites()
        tree = ast.fix_missing_locations(sites.visit(tree))
        code = compile(tree, "<tests>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ValueError(f"tests: {error}") from error
    if not sites.count:
        raise ValueError("tests hold no assert statement, so that anything would pass")
    # A solution does not redefine the built-ins of its tests.
    names = sorted(name for name in used - set(dir(builtins)) if not name.startswith("__"))
    return code, names, sites.count


class _Sites(ast.NodeTransformer):
    """``assert a`` becomes: try a; report the number of this site as passed or failed; go on."""

    def __init__(self) -> None:
        self.count = 0

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        site = ast.Constant(self.count)
        self.count += 1

        def report(name: str) -> ast.stmt:
            return ast.Expr(ast.Call(ast.Name(f"__nbkit_{name}__", ast.Load()), [site], []))

        check = ast.If(node.test, [report("passed")], [report("failed")])
        handler = ast.ExceptHandler(ast.Name("Exception", ast.Load()), None, [report("failed")])
        return ast.copy_location(ast.Try([check], [handler], [], []), node)


class _Exchange:
    """Passes lines between the two sandboxes, in turn, until the verdict."""

    def __init__(self, defendant: Sandbox, court: Sandbox, end: float) -> None:
        self.defendant, self.court, self.end = defendant, court, end
        self.rest = {defendant.stdout: b"", court.stdout: b""}
        self.noise = {defendant.stderr: MAX_NOISE, court.stderr: MAX_NOISE}
        self.heard = b""  # the last that the tests printed

    def run(self) -> dict[str, Any]:
        """Return the verdict's message. After a fault of the solution the tests end without it."""
        fault = ""
        line = b""  # of the tests; at first they wait for what the solution announces
        while not line.startswith(VERDICT):
            try:
                if line:
                    self._pass_on(line, self.defendant)
                answer = None if fault else self._line(self.defendant)
            except _StoppedError as stop:
                fault, answer = str(stop), None
                self.end = time.monotonic() + GRACE_S
                self.noise.pop(self.defendant.stderr, None)
                self.defendant.kill()
            self._pass_on(answer, self.court)
            following = self._line(self.court)
            if following is None:
                if status_of(self.court.outcome(GRACE_S)) in ("killed", "timeout"):
                    raise _StoppedError("the tests ran out of memory or time")
                raise RuntimeError(f"the tests ended without a verdict: {self._last_words()}")
            line = following
        verdict = json.loads(line[len(VERDICT) :])
        assert isinstance(verdict, dict)
        return verdict | ({"problem": fault} if fault else {})

    def _last_words(self) -> str:
        if self.court.stderr in self.noise:
            self._hear(self.court.stderr)
        return self.heard[-500:].decode(errors="replace").strip() or "no message"

    def _line(self, box: Sandbox) -> bytes | None:
        """The next line of a sandbox; None once it has ended."""
        source = box.stdout
        while b"\n" not in self.rest[source]:
            if len(self.rest[source]) > MAX_MESSAGE:
                if box is self.court:
                    raise RuntimeError("a call of the tests is longer than a message may be")
                raise _StoppedError("an answer of the solution is longer than a message may be")
            if source in self._wait({source: select.POLLIN}):
                data = os.read(source, 65536)
                if not data:
                    return None
                self.rest[source] += data
        line, _, self.rest[source] = self.rest[source].partition(b"\n")
        return line + b"\n"

    def _pass_on(self, line: bytes | None, box: Sandbox) -> None:
        """Write a line to a sandbox, or the end of its input."""
        if line is None or not box.takes_input():
            box.end_of_input()
            return
        view = memoryview(line)
        while view:
            self._wait({box.stdin: select.POLLOUT})
            try:
                view = view[os.write(box.stdin, view) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                return  # it has ended; the next line of it is None

    def _wait(self, wanted: dict[int, int]) -> set[int]:
        """Wait for one of the descriptors, reading meanwhile what either side prints."""
        poller = select.poll()
        for descriptor, events in wanted.items():
            poller.register(descriptor, events)
        for descriptor in self.noise:
            poller.register(descriptor, select.POLLIN)
        while True:
            ready = dict(poller.poll(max(0.0, self.end - time.monotonic()) * 1000))
            if not ready:
                raise _StoppedError("time limit")
            for descriptor in [d for d in self.noise if d in ready]:
                if not self._hear(descriptor):
                    poller.unregister(descriptor)
            if found := set(ready) & set(wanted):
                return found

    def _hear(self, descriptor: int) -> bool:
        data = b""
        with contextlib.suppress(BlockingIOError):
            data = os.read(descriptor, 65536)
            if not data:
                del self.noise[descriptor]
                return False
        self.noise[descriptor] -= len(data)
        if descriptor == self.court.stderr:
            self.heard = (self.heard + data)[-2000:]
        if self.noise[descriptor] < 0:
            raise _StoppedError("printed too much")
        return True
