"""Time and peak memory of log-probabilities and entropy at a large vocabulary.

    python benchmarks/logprobs.py --out benchmarks/results/logprobs_cpu.json

Forward and backward together, bfloat16 logits, four forms: the float32 log-softmax that everybody
writes first, the same in the dtype of the logits, TRL's helper where TRL is installed, and ours. On
a GPU the peak is what the allocator handed out; on a CPU each form runs in a process of its own and
the peak is what the process ever held above what it held before. Needs torch alone.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

import torch  # noqa: E402
from side_by_side import ratios, spread, start, timed_in_turn  # noqa: E402
from torch import Tensor  # noqa: E402

from nbkit.logprobs import entropy, token_logprobs  # noqa: E402

VOCABULARY = 152_064
SHAPES = {"cpu": (1, 256), "cuda": (4, 2048)}
QUICK_SHAPES = {"cpu": (1, 8), "cuda": (1, 64)}
ROUNDS = {"cpu": 3, "cuda": 20}
REFERENCE_ROWS = 32
Form = Callable[[Tensor, Tensor], Tensor]


def naive_logprobs(logits: Tensor, tokens: Tensor) -> Tensor:
    return logits.float().log_softmax(-1).gather(-1, tokens[..., None])[..., 0]


def narrow_logprobs(logits: Tensor, tokens: Tensor) -> Tensor:
    return logits.log_softmax(-1).gather(-1, tokens[..., None])[..., 0]


def naive_entropy(logits: Tensor, tokens: Tensor) -> Tensor:
    logp = logits.float().log_softmax(-1)
    return -(logp.exp() * logp).sum(-1)


def narrow_entropy(logits: Tensor, tokens: Tensor) -> Tensor:
    logp = logits.log_softmax(-1)
    return -(logp.exp() * logp).sum(-1)


def forms() -> dict[str, dict[str, Form]]:
    """Operation -> name -> form; TRL's where it can be imported."""
    found: dict[str, dict[str, Form]] = {
        "token_logprobs": {
            "naive float32": naive_logprobs,
            "in the logits' dtype": narrow_logprobs,
            "ours": token_logprobs,
        },
        "entropy": {
            "naive float32": naive_entropy,
            "in the logits' dtype": narrow_entropy,
            "ours": lambda logits, tokens: entropy(logits),
        },
    }
    if trl_version() is not None:
        found["token_logprobs"]["TRL"] = trl_logprobs
        found["entropy"]["TRL"] = trl_entropy
    return found


def trl_logprobs(logits: Tensor, tokens: Tensor) -> Tensor:
    from trl.trainer.utils import selective_log_softmax  # seconds to import

    return selective_log_softmax(logits, tokens)


def trl_entropy(logits: Tensor, tokens: Tensor) -> Tensor:
    from trl.trainer.utils import entropy_from_logits

    return entropy_from_logits(logits)


def trl_version() -> str | None:
    try:
        return version("trl")
    except PackageNotFoundError:
        return None


def inputs(shape: tuple[int, int], device: str) -> tuple[Tensor, Tensor]:
    """Logits as a model leaves them: a spread of about 3, and the tokens that were drawn."""
    generator = torch.Generator(device).manual_seed(0)
    options = {"generator": generator, "device": device}
    logits = torch.empty(*shape, VOCABULARY, dtype=torch.bfloat16, device=device)
    for row in logits.view(-1, VOCABULARY).split(64):  # nothing float32 of the whole size
        row.copy_(torch.randn(row.shape, **options).mul_(3))
    tokens = torch.randint(0, VOCABULARY, shape, **options)
    return logits.requires_grad_(), tokens


def forward_backward(form: Form, logits: Tensor, tokens: Tensor) -> None:
    logits.grad = None
    form(logits, tokens).sum().backward()


def peak_bytes_cuda(form: Form, logits: Tensor, tokens: Tensor) -> int:
    """The most that was allocated at one time, logits and their gradient included."""
    logits.grad = None
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    forward_backward(form, logits, tokens)
    return torch.cuda.max_memory_allocated()


def peak_bytes_cpu(operation: str, name: str, shape: tuple[int, int]) -> int:
    """The same for a process of its own: its high-water mark above the logits, plus the logits."""
    command = [sys.executable, __file__, "--child", operation, name, *map(str, shape)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout.strip().splitlines()[-1])


def child(operation: str, name: str, *shape: str) -> None:
    """In the process of its own: print the peak in bytes."""
    form = forms()[operation][name]
    small, few = inputs((1, 2), "cpu")
    forward_backward(form, small, few)  # libraries load what they load lazily
    logits, tokens = inputs((int(shape[0]), int(shape[1])), "cpu")
    Path("/proc/self/clear_refs").write_text("5")  # forget the high-water mark so far
    before = memory_line("VmRSS")
    forward_backward(form, logits, tokens)
    print(memory_line("VmHWM") - before + logits.numel() * logits.element_size())


def memory_line(name: str) -> int:
    """Bytes that Linux reports for this process: VmRSS is held now, VmHWM the most ever held."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"{name} is not in /proc/self/status; the CPU memory is measured on Linux")


def largest_errors(form: Form, logits: Tensor, tokens: Tensor, operation: str) -> dict[str, float]:
    """Against float64 on a few rows: of the values, and of the gradient relative to its largest."""
    rows = logits.detach().reshape(-1, VOCABULARY)[:REFERENCE_ROWS]
    few = tokens.reshape(-1)[:REFERENCE_ROWS]
    narrow = rows.clone().requires_grad_()
    value = form(narrow[None], few[None])
    (slope,) = torch.autograd.grad(value.sum(), narrow)
    wide = rows.double().requires_grad_()
    logp = wide.log_softmax(-1)
    picked = logp.gather(-1, few[:, None])[:, 0]
    exact = picked if operation == "token_logprobs" else -(logp.exp() * logp).sum(-1)
    (exact_slope,) = torch.autograd.grad(exact.sum(), wide)
    return {
        "value_error": float((value.detach()[0].double() - exact.detach()).abs().max()),
        "gradient_error": float((slope.double() - exact_slope).abs().max()),
    }


def measure(device: str, quick: bool) -> list[dict[str, Any]]:
    """One row a form: seconds of every round, peak bytes, errors."""
    shape = (QUICK_SHAPES if quick else SHAPES)[device]
    rounds = 2 if quick else ROUNDS[device]
    logits, tokens = inputs(shape, device)
    rows = []
    for operation, named in forms().items():
        calls = {
            name: partial(forward_backward, form, logits, tokens) for name, form in named.items()
        }
        for call in calls.values():
            call()
        times = timed_in_turn(calls, rounds, gpu=logits.is_cuda)
        logits.grad = None
        for name, form in named.items():
            peak = (
                peak_bytes_cuda(form, logits, tokens)
                if device == "cuda"
                else peak_bytes_cpu(operation, name, shape)
            )
            rows.append(
                {
                    "operation": operation,
                    "form": name,
                    "seconds": times[name],
                    "median_seconds": spread(times[name]).median,
                    "peak_bytes": peak,
                    **largest_errors(form, logits, tokens, operation),
                }
            )
            print(
                f"{operation:15} {name:22} {1e3 * rows[-1]['median_seconds']:9.2f} ms "
                f"{peak / 2**20:9.0f} MiB  value error {rows[-1]['value_error']:.1e}",
                flush=True,
            )
    return rows


def ratios_of(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Ours over the naive float32 form: peak memory, and time round by round."""
    out = {}
    for operation in ("token_logprobs", "entropy"):
        naive, ours = (
            next(r for r in rows if r["operation"] == operation and r["form"] == form)
            for form in ("naive float32", "ours")
        )
        time = spread(ratios(ours["seconds"], naive["seconds"]))
        out[operation] = {
            "memory": ours["peak_bytes"] / naive["peak_bytes"],
            "time": time.median,
            "time_least": time.least,
            "time_most": time.most,
        }
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="where the stamped JSON goes")
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), help="default: cuda where there is one"
    )
    parser.add_argument("--quick", action="store_true", help="small shapes, to see that it runs")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(*arguments.child)
        return
    device = arguments.device or ("cuda" if torch.cuda.is_available() else "cpu")
    shape = (QUICK_SHAPES if arguments.quick else SHAPES)[device]
    config = {"device": device, "shape": [*shape, VOCABULARY], "dtype": "bfloat16"}
    record = start(arguments.out, seeds=[0], config=config)
    print(f"{device}, logits {tuple(config['shape'])} bfloat16, TRL {trl_version() or 'absent'}")
    rows = measure(device, arguments.quick)
    result = {
        "device": device,
        "shape": config["shape"],
        "logits_bytes": 2 * shape[0] * shape[1] * VOCABULARY,
        "trl": trl_version() or "trl absent",
        "rows": rows,
        "ours_over_naive": ratios_of(rows),
    }
    print(json.dumps(result["ours_over_naive"], indent=1))
    record.finish(result)


if __name__ == "__main__":
    main()
