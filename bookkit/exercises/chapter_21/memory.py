"""rlhf.memory.1: what four models weigh."""

from typing import Any

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

Models = list[dict[str, Any]]
Answer = tuple[list[int], int]


def memory(models: Models, shards: int, cache: dict[str, int]) -> Answer:
    """Bytes of each model on one device, and of the key-value cache."""
    return _memory(models, shards, cache)


def _memory(models, shards, cache, **how):  # type: ignore[no-untyped-def]
    states = how.get("states", 12)
    weights, gradients = how.get("weights", 2), how.get("gradients", 2)
    sizes = []
    for model in models:
        total, adapters = model["parameters"], model["adapters"]
        kind = "full" if how.get("all_trained") else model["method"]
        if kind == "full":
            size = total * (weights + gradients + states)
        elif kind == "lora":
            base = 0 if how.get("no_base") else weights * total
            trained = total if how.get("lora_all") else adapters
            base_gradient = gradients * total if how.get("base_gradient") else 0
            size = base + base_gradient + trained * (weights + gradients + states)
        else:
            size = weights * total
        if how.get("only_states_sharded") and kind == "full":
            sharded = total * states
            sizes.append(size - sharded + sharded // shards)
        else:
            sizes.append(size if how.get("not_sharded") else size // shards)
    heads = cache["heads" if how.get("query_heads") else "kv_heads"]
    two = 1 if how.get("keys_only") else 2
    layers = 1 if how.get("one_layer") else cache["layers"]
    tokens = cache["length"] * (1 if how.get("one_row") else cache["rows"])
    held = two * layers * heads * cache["head_size"] * tokens * (4 if how.get("cache32") else 2)
    return sizes, held // shards if how.get("cache_sharded") else held


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


def _mutant(name: str, message: str, **how: object) -> Mutant:
    def function(models: Models, shards: int, cache: dict[str, int]) -> Answer:
        return _memory(models, shards, cache, **how)

    return Mutant(name, function, message)


MEMORY = Exercise(
    id="rlhf.memory.1",
    title="What four models weigh",
    chapter=21,
    difficulty=2,
    minutes=20,
    goal=(
        "Bytes on one device: for each model, trained in full, by adapters or frozen, its states "
        "in mixed precision with AdamW, sharded evenly; and the key-value cache of its own rows."
    ),
    outputs=(
        Output("models", "a list of whole numbers, in bytes", "python"),
        Output("cache", "a whole number, in bytes", "python"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=memory,
    mutants=(
        _mutant(
            "master weights forgotten",
            "4 bytes a trained parameter are missing: the optimiser keeps the weights in 32 bits "
            "as well, beside its two moments",
            states=8,
        ),
        _mutant(
            "one moment",
            "only 4 bytes a trained parameter for master weights and moments: Adam has two moments "
            "in 32 bits, and the master weights are a third array",
            states=4,
        ),
        _mutant(
            "gradients forgotten",
            "the gradients are missing: 2 bytes a trained parameter",
            gradients=0,
        ),
        _mutant(
            "gradients in 32 bits",
            "the gradients take 4 bytes a parameter; here they are in 16 bits like the weights",
            gradients=4,
        ),
        _mutant(
            "everything is trained",
            "every model is counted as trained in full: a frozen one has weights only",
            all_trained=True,
        ),
        _mutant(
            "adapters' base forgotten",
            "the frozen base below the adapters is missing: its weights must still be there",
            no_base=True,
        ),
        _mutant(
            "optimiser over the base",
            "with adapters, gradients and optimiser are counted for the whole model: they exist "
            "for the adapters only",
            lora_all=True,
        ),
        _mutant(
            "gradients of the base",
            "with adapters, gradients are counted for the frozen base: it has none",
            base_gradient=True,
        ),
        _mutant(
            "not sharded",
            "`shards` has no effect on the models: each device holds its share of every array",
            not_sharded=True,
        ),
        _mutant(
            "only the optimiser is sharded",
            "only master weights and moments are divided by `shards` (that is stage 1): here "
            "gradients and weights are divided too",
            only_states_sharded=True,
        ),
        _mutant(
            "cache sharded",
            "the cache is divided by `shards`: its rows are this device's own already",
            cache_sharded=True,
        ),
        _mutant(
            "keys only",
            "the cache is half as large as it must be: it holds keys and values",
            keys_only=True,
        ),
        _mutant(
            "query heads",
            "the cache is counted with the heads of the queries: keys and values have `kv_heads`",
            query_heads=True,
        ),
        _mutant("one layer", "the cache is that of one layer: each has its own", one_layer=True),
        _mutant("one row", "the cache is that of one sequence: multiply by the rows", one_row=True),
        _mutant(
            "cache in 32 bits",
            "the cache takes 4 bytes a number; here it is in 16 bits",
            cache32=True,
        ),
    ),
    not_tested="activations, fragmentation, and what the libraries hold by themselves.",
)
