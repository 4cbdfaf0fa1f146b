"""`nbkit.show`: the package's real source, as text and as HTML."""

import inspect
import re

import pytest

import nbkit
from bookkit.authoring import jobs
from bookkit.authoring.show import source_of


def test_a_function_is_shown_as_it_stands_with_its_place():
    source = source_of(jobs.run_jobs)
    assert source.text == inspect.getsource(jobs.run_jobs)
    assert source.name == "bookkit.authoring.jobs.run_jobs"
    assert re.fullmatch(r"bookkit/authoring/jobs.py, lines \d+–\d+", source.place)
    first = int(re.findall(r"\d+", source.place)[0])
    line = inspect.getsource(jobs).splitlines()[first - 1]
    assert line.startswith("def run_jobs(")


def test_methods_are_dedented_and_classes_and_modules_work():
    assert source_of(jobs.Outcome.passed).text.startswith("@property\ndef passed")
    assert source_of(jobs.Job).text.startswith("@dataclass(frozen=True)\nclass Job")
    assert source_of(jobs).text == inspect.getsource(jobs)


def test_both_forms_carry_the_whole_source():
    bundle = source_of(jobs.run_jobs)._repr_mimebundle_()
    text = inspect.getsource(jobs.run_jobs)
    assert bundle["text/plain"].endswith(text)
    code = re.search(r"<code[^>]*>(.*)</code>", bundle["text/html"], flags=re.DOTALL)
    assert code is not None
    import html

    assert html.unescape(re.sub(r"<[^>]+>", "", code.group(1))) == text


def test_the_html_has_rules_for_light_and_dark_pages_and_loads_nothing():
    page = source_of(jobs.run_jobs)._repr_mimebundle_()["text/html"]
    assert ".nbkit-source :is(" in page
    assert '[data-theme="dark"]' in page and '[data-jp-theme-light="false"]' in page
    assert "http" not in page and "url(" not in page


def test_outside_a_notebook_the_source_is_printed(capsys):
    nbkit.show(jobs.Job)
    assert "class Job" in capsys.readouterr().out


@pytest.mark.parametrize("thing", [3, "text", len, jobs.Job("a", ["b"], "c")])
def test_what_has_no_source_is_refused_in_one_sentence(thing):
    with pytest.raises(TypeError, match=r"show (renders|finds)"):
        nbkit.show(thing)


def test_nothing_to_show_is_refused():
    with pytest.raises(TypeError, match="at least one"):
        nbkit.show()
