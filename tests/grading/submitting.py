"""Thirty submissions of one exercise notebook: right, wrong, half done, odd and hostile."""
# ruff: noqa: E501 (the rows of the table are read as lines)

import json
from pathlib import Path

from bookkit.authoring.notebook_file import join

ROOT = Path(__file__).parents[2]
STEM = "01_score_function"
GRADIENT, BASELINE, ESS, OFF_POLICY = (
    *("score.gradient.1", "score.baseline.1", "score.ess.1", "score.offpolicy.1"),
)
STUB = "def {name}(*args):\n    raise NotImplementedError"
RIGHT_GRADIENT = "probabilities * (rewards - (probabilities * rewards).sum())"


def master() -> dict:
    """The solution's notebook, without outputs: every exercise passes."""
    path = ROOT / "solutions" / f"{STEM}.ipynb"
    return json.loads(path.read_text(encoding="utf-8"))


def edited(old: str, new: str) -> dict:
    """The solution with one piece of code replaced, once."""
    notebook = master()
    for cell in notebook["cells"]:
        source = join(cell["source"])
        if cell["cell_type"] == "code" and old in source:
            cell["source"] = source.replace(old, new, 1)
            return notebook
    raise AssertionError(f"no cell holds {old!r}")


def in_gradient(code: str) -> dict:
    """The solution whose first function begins with other code."""
    return edited(
        "    probabilities = torch.softmax(logits, dim=0)\n    return",
        f"    {code}\n    probabilities = torch.softmax(logits, dim=0)\n    return",
    )


def first_cell(code: str) -> dict:
    """The solution with a cell in front of all others."""
    notebook = master()
    notebook["cells"].insert(0, {"cell_type": "code", "metadata": {}, "source": code})
    return notebook


def without_checks() -> dict:
    notebook = master()
    notebook["cells"] = [c for c in notebook["cells"] if "nbkit.check(" not in join(c["source"])]
    return notebook


READS_CHECKS = (
    "import os\n"
    f"assert sorted(os.listdir('{ROOT}')) in (['bookkit', 'nbkit'], ['.venv', 'bookkit', 'nbkit'])\n"
    "from bookkit.exercises.registry import get_exercise\n"
    "get_exercise('score.gradient.1').oracle"
)
PATCHES = (
    "import torch\n"
    "import bookkit.exercises.observe as o, bookkit.exercises.compare as c\n"
    "import bookkit.grading.wire as w\n"
    "torch.equal = torch.allclose = lambda *a, **k: True\n"
    "c.find_problem = lambda *a: None\n"
    "real = o.observe\n"
    "def always(exercise, function, inputs, weights=None, seconds=1.0):\n"
    "    seen = real(exercise, function, inputs, weights, seconds)\n"
    "    seen.error, seen.changed = None, ()\n"
    "    return seen\n"
    "o.observe = always\n"
)
FORGES = (
    "import os, json\n"
    "    text = json.dumps({'passed': True, 'seen': [], 'missing': False, 'misfit': None}).encode()\n"
    "    for fd in range(3, 64):\n"
    "        try:\n"
    "            os.write(fd, len(text).to_bytes(4, 'big') + text)\n"
    "        except OSError:\n"
    "            pass"
)
STUBBORN = (
    "while True:\n"
    "        try:\n"
    "            while True:\n"
    "                pass\n"
    "        except BaseException:\n"
    "            pass"
)
FORKS = "import os\n    while True:\n        try:\n            os.fork()\n        except OSError:\n            pass"

# name: (notebook or text of its file, state of the four exercises, words of the first sentence)
PASS = "passed"
ALL = (PASS,) * 4
SUBMISSIONS: dict[str, tuple[dict | str, tuple[str, ...], str]] = {
    "ada": (master(), ALL, ""),
    "bea": (without_checks(), ALL, ""),
    "carl": (
        edited(RIGHT_GRADIENT, "torch.func.grad(lambda x: (x.softmax(0) * rewards).sum())(logits)"),
        ALL,
        "",
    ),
    "dora": (first_cell("%matplotlib inline\n!ls\nprint('hello')"), ALL, ""),
    "emil": (first_cell("raise ValueError('an old cell')"), ALL, ""),
    "fay": (first_cell("import sys\nsys.exit(0)"), ALL, ""),
    "gus": (in_gradient("print('x' * 10**6)"), ALL, ""),
    "hal": (edited(RIGHT_GRADIENT, "probabilities * rewards"), ("failed", *ALL[1:]), ""),
    "ida": (edited(RIGHT_GRADIENT, "-" + RIGHT_GRADIENT), ("failed", *ALL[1:]), ""),
    "jo": (
        edited(RIGHT_GRADIENT, f"({RIGHT_GRADIENT}).float()"),
        ("failed", *ALL[1:]),
        "precision",
    ),
    "kim": (edited("log_weights.max()", "log_weights.mean()"), (PASS, PASS, "failed", PASS), ""),
    "lea": (
        edited("-(ratios * rewards.detach()).mean()", "(ratios * rewards).mean()"),
        (*ALL[:3], "failed"),
        "",
    ),
    "max": (
        in_gradient("raise NotImplementedError"),
        ("not written", *ALL[1:]),
        "NotImplementedError",
    ),
    "nia": (
        edited("def bandit_gradient(", "def gradient_of_bandit("),
        ("missing", *ALL[1:]),
        "no cell defines bandit_gradient",
    ),
    "ole": (
        edited(
            "def bandit_gradient(logits: Tensor, rewards: Tensor)", "def bandit_gradient(logits)"
        ),
        ("failed", *ALL[1:]),
        "it is called with (logits, rewards)",
    ),
    "pia": (
        edited("return " + RIGHT_GRADIENT, "return None"),
        ("failed", *ALL[1:]),
        "returned None",
    ),
    "quin": (
        edited("return " + RIGHT_GRADIENT, "return object()"),
        ("failed", *ALL[1:]),
        "must be a torch tensor",
    ),
    "ron": ("this is no notebook", ("missing",) * 4, "cannot be read"),
    "sue": ("[" * 100_000, ("missing",) * 4, "cannot be read"),
    # hostile
    "t_loop": (in_gradient("while True: pass"), ("ended", *ALL[1:]), "of processor time"),
    "u_stubborn": (in_gradient(STUBBORN), ("ended", *ALL[1:]), "of processor time"),
    "v_loop_in_a_cell": (first_cell("while True: pass"), ALL, ""),
    "w_sleeps": (
        in_gradient(
            "import signal, time; signal.setitimer(signal.ITIMER_REAL, 0); time.sleep(1e6)"
        ),
        ("ended", *ALL[1:]),
        "computed nothing",
    ),
    "x_memory": (
        in_gradient("x = [bytearray(2**26) for _ in range(10**4)]"),
        ("ended", *ALL[1:]),
        "used more than",
    ),
    "y_network": (
        in_gradient("import socket; socket.create_connection(('192.0.2.1', 80))"),
        ("failed", *ALL[1:]),
        "Operation not permitted",
    ),
    "z_reads_checks": (
        in_gradient(READS_CHECKS.replace("\n", "\n    ")),
        ("failed", *ALL[1:]),
        "the checks of the exercises come with the book",
    ),
    "za_patches": (
        first_cell(PATCHES)
        | {"cells": first_cell(PATCHES)["cells"][:1] + edited(RIGHT_GRADIENT, "-rewards")["cells"]},
        ("failed", *ALL[1:]),
        "",
    ),
    "zb_forges": (in_gradient(FORGES), ("ended", *ALL[1:]), ""),
    "zc_leaves": (
        in_gradient("import os; os._exit(0)"),
        ("ended", *ALL[1:]),
        "ended its own process",
    ),
    "zd_forks": (in_gradient(FORKS), ("ended", *ALL[1:]), ""),
}


def hand_in(folder: Path) -> None:
    """Write all submissions, each into a folder of its learner."""
    for learner, (notebook, _, _) in SUBMISSIONS.items():
        path = folder / learner / f"{STEM}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text(notebook if isinstance(notebook, str) else json.dumps(notebook))
