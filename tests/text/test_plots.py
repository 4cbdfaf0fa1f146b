import matplotlib.pyplot as plt
import numpy as np
import pytest

from nbkit import plots

pytestmark = pytest.mark.chapter(11)


def test_smooth_is_a_trailing_mean():
    assert plots.smooth([1, 3, 5, 7], 2).tolist() == [1, 2, 4, 6]
    with pytest.raises(ValueError, match="window"):
        plots.smooth([1], 0)


def test_band_shows_mean_and_range_and_counts_the_seeds():
    figure, axes = plt.subplots()
    plots.band(axes, [[0, 2], [2, 4]], label="run")
    (line,) = axes.lines
    assert line.get_ydata().tolist() == [1, 3] and line.get_label() == "run (n=2)"
    edges = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert edges.min() == 0 and edges.max() == 4
    with pytest.raises(ValueError, match="different lengths"):
        plots.band(axes, [[0], [1, 2]], label="bad")
    plt.close(figure)


def test_a_figure_needs_words_and_stays_small(monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda *a, **k: shown.append((a, k)))
    figure, axes = plt.subplots()
    with pytest.raises(ValueError, match="alt"):
        plots.show_figure(figure, alt=" ")
    plots.show_figure(figure, alt="An empty plot.")
    (bundle,), keywords = shown[0]
    assert bundle["text/plain"] == "[figure: An empty plot.]"
    assert keywords["metadata"]["image/png"]["alt"] == "An empty plot."
    figure, axes = plt.subplots(figsize=(9, 9))
    axes.imshow(np.random.default_rng(0).random((900, 900)))
    with pytest.raises(ValueError, match="at most 150000"):
        plots.show_figure(figure, alt="Noise.")
