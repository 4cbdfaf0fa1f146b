"""What is taken out of outputs before they are stored, and what is not."""

import base64

import pytest

from bookkit.authoring.clean import clean_outputs, large_figures, last_state


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\nlines\n", "plain\nlines\n"),
        ("\r  0%\r 50%\r100%\nnext", "100%\nnext"),
        ("long state\rend", "endg state"),
        ("line\r\nnext", "line\nnext"),
        ("a\x1b[A\x1b[2Kb", "ab"),
        ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
        ("  kept  \n", "  kept  \n"),
    ],
)
def test_last_state(text: str, shown: str):
    assert last_state(text) == shown


def test_outputs_lose_counts_and_keep_data():
    data = {"text/plain": ["<Figure>"], "image/png": "aGk="}
    outputs = [
        {"output_type": "execute_result", "execution_count": 7, "data": data, "metadata": {}},
        {"output_type": "stream", "name": "stderr", "text": ["\r 1/2", "\r 2/2"]},
        {"output_type": "stream", "name": "stdout", "text": "\r"},
    ]
    result, bar = clean_outputs(outputs)
    assert result == outputs[0] | {"execution_count": None}
    assert bar["text"] == " 2/2"
    assert outputs[0]["execution_count"] == 7, "the original is not touched"


def test_figures_over_the_limit_are_found():
    def cell(size: int) -> dict:
        image = base64.b64encode(bytes(size)).decode()
        output = {"output_type": "display_data", "data": {"image/png": image}, "metadata": {}}
        return {"cell_type": "code", "outputs": [output]}

    notebook = {"cells": [cell(149_000), {"cell_type": "markdown"}, cell(152_000)]}
    [(number, size)] = large_figures(notebook)
    assert number == 2 and 151_000 < size < 153_000
