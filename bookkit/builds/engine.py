"""Runs a learner's file through the stages of a build and keeps what came out."""

import random
import secrets
from contextlib import closing

from bookkit.builds.session import Session, Stopped
from bookkit.builds.verdict import Build, Finding, Say, Verdict

UNWRITTEN = "NotImplementedError"


def run(
    build: Build,
    source: str,
    *,
    seed: int | None = None,
    films: bool = True,
    only: tuple[str, ...] = (),
    allow_unprotected: bool = False,
    say: Say = lambda _: None,
) -> Verdict:
    """Judge a learner's file.

    Args:
        build: which.
        source: the text of the file.
        seed: of the judge's draws; left out, drawn anew. Only tests of the judge give one.
        films: whether to record what is shown and not judged.
        only: titles of the stages to judge; empty: all. With less than all nothing passes.
        allow_unprotected: run without a sandbox where this machine has none.
        say: takes a line of progress.

    Raises:
        SandboxUnavailableError: this machine has no sandbox, and nobody has accepted that.

    """
    draw = random.Random(secrets.randbits(64) if seed is None else seed)
    findings: list[Finding] = []
    stopped = printed = ""
    layers: tuple[str, ...] = ()
    try:
        with closing(
            Session(
                f"{build.name}.py",
                source,
                build.part,
                build.budget,
                allow_unprotected=allow_unprotected,
            )
        ) as session:
            layers = session.layers
            try:
                for stage in build.stages:
                    if only and stage.title not in only:
                        continue
                    say(f"{stage.title} …")
                    findings.append(stage.judge(session, draw, films=films))
                    if not findings[-1].passed:
                        break
            finally:
                printed = session.printed
    except Stopped as end:
        stopped = str(end)
    return Verdict(build, tuple(findings), stopped, printed, layers)


def is_unwritten(verdict: Verdict) -> bool:
    """Whether the file is as it was handed out."""
    return verdict.stopped.endswith(f"\n{UNWRITTEN}") and not verdict.findings
