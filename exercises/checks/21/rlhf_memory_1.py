"""rlhf.memory.1: what four models weigh."""

from typing import Any

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits

Models = list[dict[str, Any]]


Answer = tuple[list[int], int]


def oracle(models: Models, shards: int, cache: dict[str, int]) -> Answer:
    """Count the arrays of each model one by one."""
    sizes: list[int] = []
    for model in models:
        arrays = [(model["parameters"], 2)]  # weights in 16 bits
        trained = 0
        if model["method"] == "full":
            trained = model["parameters"]
        elif model["method"] == "lora":
            trained = model["adapters"]
            arrays.append((trained, 2))
        # gradients in 16 bits; master weights, first and second moment in 32
        arrays += [(trained, 2), (trained, 4), (trained, 4), (trained, 4)]
        sizes.append(sum(count * size for count, size in arrays) // shards)
    held = 0
    for _ in range(cache["layers"]):
        for _ in ("keys", "values"):
            held += cache["rows"] * cache["length"] * cache["kv_heads"] * cache["head_size"] * 2
    return sizes, held


def cases(draw: Draw) -> Case:
    """Up to four models, each trained in its own way."""
    models = [
        {
            "parameters": 8 * draw.integer(1, 1000),
            "adapters": 8 * draw.integer(1, 20),
            "method": draw.choice(["full", "lora", "frozen"]),
        }
        for _ in range(min(4, draw.dimension()))
    ]
    kv_heads = draw.choice([1, 2, 4])
    cache = {
        "layers": draw.integer(1, 4),
        "heads": kv_heads * draw.integer(1, 4),
        "kv_heads": kv_heads,
        "head_size": draw.choice([2, 4]),
        "rows": draw.integer(1, 4),
        "length": draw.integer(1, 10),
    }
    return Case(
        f"models: {len(models)}",
        {"models": models, "shards": draw.choice([1, 2, 4, 8]), "cache": cache},
    )


def edges() -> tuple[Case, ...]:
    """Each method alone, on one device and on eight; four models at 7 billion."""

    def model(method: str, parameters: int = 800, adapters: int = 16) -> dict[str, Any]:
        return {"parameters": parameters, "adapters": adapters, "method": method}

    cache = {"layers": 3, "heads": 4, "kv_heads": 2, "head_size": 4, "rows": 5, "length": 7}
    four = [
        model("full", 7_616_000_000),
        model("frozen", 7_616_000_000),
        model("frozen", 7_070_000_000),
        model("lora", 7_070_000_000, 40_000_000),
    ]
    large = {
        "layers": 28,
        "heads": 28,
        "kv_heads": 4,
        "head_size": 128,
        "rows": 64,
        "length": 1024,
    }
    return (
        Case("a trained model", {"models": [model("full")], "shards": 1, "cache": cache}),
        Case("a frozen model", {"models": [model("frozen")], "shards": 1, "cache": cache}),
        Case("a model with adapters", {"models": [model("lora")], "shards": 1, "cache": cache}),
        Case("a trained model, sharded", {"models": [model("full")], "shards": 8, "cache": cache}),
        Case("adapters, sharded", {"models": [model("lora")], "shards": 4, "cache": cache}),
        Case("four of 7 billion", {"models": four, "shards": 8, "cache": large}),
    )


CHECK = Check(
    id="rlhf.memory.1",
    outputs=(
        Output("models", "a list of whole numbers, in bytes", "python"),
        Output("cache", "a whole number, in bytes", "python"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edits(
            "master weights forgotten",
            ("size = 16", "size = 12"),
            ("+ 16", "+ 12"),
            message="4 bytes a trained parameter are missing: the optimiser keeps the weights in "
            "32 bits as well, beside its two moments",
        ),
        edits(
            "one moment",
            ("size = 16", "size = 8"),
            ("+ 16", "+ 8"),
            message="only 4 bytes a trained parameter for master weights and moments: Adam has "
            "two moments in 32 bits, and the master weights are a third array",
        ),
        edits(
            "gradients forgotten",
            ("size = 16", "size = 14"),
            ("+ 16", "+ 14"),
            message="the gradients are missing: 2 bytes a trained parameter",
        ),
        edits(
            "gradients in 32 bits",
            ("size = 16", "size = 18"),
            ("+ 16", "+ 18"),
            message="the gradients take 4 bytes a parameter; here they are in 16 bits like the "
            "weights",
        ),
        edit(
            "everything is trained",
            'model["method"] == "full"',
            "True",
            "every model is counted as trained in full: a frozen one has weights only",
        ),
        edit(
            "adapters' base forgotten",
            '2 * model["parameters"] + 16',
            "16",
            "the frozen base below the adapters is missing: its weights must still be there",
        ),
        edit(
            "optimiser over the base",
            '16 * model["adapters"]',
            '16 * model["parameters"]',
            "with adapters, gradients and optimiser are counted for the whole model: they "
            "exist for the adapters only",
        ),
        edit(
            "gradients of the base",
            '2 * model["parameters"] + 16',
            '4 * model["parameters"] + 16',
            "with adapters, gradients are counted for the frozen base: it has none",
        ),
        edit(
            "not sharded",
            "size // shards",
            "size",
            "`shards` has no effect on the models: each device holds its share of every array",
        ),
        edit(
            "only the optimiser is sharded",
            'size = 16 * model["parameters"]',
            'size = shards * 4 * model["parameters"] + 12 * model["parameters"]',
            "only master weights and moments are divided by `shards` (that is stage 1): "
            "here gradients and weights are divided too",
        ),
        edit(
            "cache sharded",
            'cache["length"]',
            'cache["length"] // shards',
            "the cache is divided by `shards`: its rows are this device's own already",
        ),
        edit(
            "keys only",
            "2 * 2 * numbers",
            "2 * numbers",
            "the cache is half as large as it must be: it holds keys and values",
        ),
        edit(
            "query heads",
            'cache["kv_heads"]',
            'cache["heads"]',
            "the cache is counted with the heads of the queries: keys and values have `kv_heads`",
        ),
        edit(
            "one layer",
            'cache["layers"] * ',
            "",
            "the cache is that of one layer: each has its own",
        ),
        edit(
            "one row",
            ' * cache["rows"]',
            "",
            "the cache is that of one sequence: multiply by the rows",
        ),
        edit(
            "cache in 32 bits",
            "2 * 2 * numbers",
            "2 * 4 * numbers",
            "the cache takes 4 bytes a number; here it is in 16 bits",
        ),
    ),
    not_tested="activations, fragmentation, and what the libraries hold by themselves.",
)
