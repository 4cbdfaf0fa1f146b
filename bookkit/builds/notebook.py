"""A build from one cell of JupyterLab: the verdict, the curves and the film below it."""

from html import escape

from bookkit.builds.desk import attempt
from bookkit.builds.report import alt_of, as_text, figure, pictures_of
from bookkit.builds.verdict import Verdict
from nbkit import plots


def build(number: int, *, films: bool = True, allow_unprotected: bool = False) -> Verdict:
    """Run `exercises/builds/NN_name.py` and show what came out.

    Args:
        number: of the chapter.
        films: record a film of the agent.
        allow_unprotected: run without a sandbox where this machine has none.

    Raises:
        UserError: no such build, no such file, or no sandbox.

    """
    from IPython.display import HTML, display

    verdict, _ = attempt(number, films=films, allow_unprotected=allow_unprotected)
    display(HTML(f"<pre style='white-space:pre-wrap'>{escape(as_text(verdict))}</pre>"))
    pictures = pictures_of(verdict)
    if pictures:
        plots.show_figure(figure(pictures), alt=alt_of(pictures))
    for finding in verdict.findings:
        if finding.film is not None:
            display(finding.film)
    return verdict
