"""shard.wrap.1: what is gathered together, and how much lies there at the worst moment."""

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

Modules = dict[str, str]
Sizes = dict[str, int]
Units = dict[str, list[str]]
Answer = tuple[list[str], Units, int]


def wrap(modules: Modules, sizes: Sizes, classes: list[str]) -> Answer:
    """Children before parents, the root last; a parameter belongs to the innermost unit."""
    return _wrap(modules, sizes, classes)


def _inside(name: str, module: str, dot: str = ".") -> bool:
    return module == "" or name.startswith(module + dot)


def _wrap(
    modules: Modules,
    sizes: Sizes,
    classes: list[str],
    *,
    dot: str = ".",
    outermost: bool = False,
    peak: str = "root and one",
    root: bool = True,
    parents_first: bool = False,
    empty: bool = False,
    twice: bool = False,
) -> Answer:
    chosen = [name for name, kind in modules.items() if name and kind in classes]
    order = sorted(chosen, key=lambda name: -name.count(".")) + ([""] if root else [])
    if parents_first:
        order = order[::-1]
    units: Units = {name: [] for name in order}
    for parameter in sizes:
        holders = [name for name in order if _inside(parameter, name, dot)]
        if not holders:
            continue
        if twice:
            for name in holders:
                units[name].append(parameter)
            continue
        inner = [name for name in holders if name]
        if outermost and inner:
            units[min(inner, key=len)].append(parameter)
        else:
            units[holders[0]].append(parameter)
    if not empty:
        units = {name: names for name, names in units.items() if names}
    totals = {name: sum(sizes[p] for p in names) for name, names in units.items()}
    largest = max((n for name, n in totals.items() if name), default=0)
    found = {
        "root and one": totals.get("", 0) + largest,
        "all": sum(totals.values()),
        "one": max(totals.values(), default=0),
        "root and last": totals.get("", 0)
        + next((n for name, n in reversed(totals.items()) if name), 0),
    }[peak]
    return order, units, found


def oracle(modules: Modules, sizes: Sizes, classes: list[str]) -> Answer:
    """Walk up from each parameter to the first wrapped module; sort by depth by hand."""
    wrapped = {name for name, kind in modules.items() if name and kind in classes}
    depth = max((len(name.split(".")) for name in wrapped), default=0)
    order: list[str] = []
    for level in range(depth, 0, -1):
        order += [name for name in modules if name in wrapped and len(name.split(".")) == level]
    units: Units = {}
    for parameter in sizes:
        path = parameter.split(".")[:-1]
        while path and ".".join(path) not in wrapped:
            path.pop()
        units.setdefault(".".join(path), []).append(parameter)
    worst = 0
    for name, names in units.items():
        if name:
            worst = max(worst, sum(sizes[p] for p in names))
    return [*order, ""], units, worst + sum(sizes[p] for p in units.get("", []))


def model(layers: int, *, head: bool = True) -> tuple[Modules, Sizes]:
    """Names of a small decoder: modules with their classes, parameters with their sizes."""
    modules: Modules = {"": "Decoder", "embed": "Embedding", "layers": "ModuleList"}
    sizes: Sizes = {"embed.weight": 50}
    for number in range(layers):
        block = f"layers.{number}"
        modules |= {block: "Block", f"{block}.norm": "Norm", f"{block}.mlp": "MLP"}
        modules |= {f"{block}.mlp.up": "Linear"}
        sizes |= {f"{block}.norm.weight": 5, f"{block}.mlp.up.weight": 20 + number}
    if head:
        modules |= {"head": "Linear"}
        sizes |= {"head.weight": 40}
    return modules, sizes


def cases(draw: Draw) -> Case:
    """A decoder of a few layers and a policy."""
    layers = draw.integer(1, 3)
    modules, sizes = model(layers, head=draw.choice([True, False]))
    sizes = {name: draw.integer(1, 60) for name in sizes}
    classes = draw.choice([["Block"], ["Block", "Embedding"], ["MLP"], [], ["Block", "MLP"]])
    inputs = {"modules": modules, "sizes": sizes, "classes": classes}
    return Case(f"{layers} layers, {classes}", inputs)


def edges() -> tuple[Case, ...]:
    """Root only, blocks, nested units, ten layers, everything wrapped, nothing of the class."""

    def case(name: str, layers: int, classes: list[str]) -> Case:
        modules, sizes = model(layers)
        return Case(name, {"modules": modules, "sizes": sizes, "classes": classes})

    big = model(2)
    big[1]["layers.0.mlp.up.weight"] = 300
    bare: tuple[Modules, Sizes] = (
        {"": "Decoder", "body": "Stack", "body.0": "Block", "body.1": "Block"},
        {"body.0.weight": 7, "body.1.weight": 9},
    )
    return (
        case("only the root", 2, []),
        case("by block, the hand example", 2, ["Block"]),
        case("blocks and embedding", 2, ["Block", "Embedding"]),
        case("a unit within a unit", 2, ["Block", "MLP"]),
        case("eleven layers", 11, ["Block"]),
        case("every linear layer", 1, ["Linear"]),
        case("no module of this class", 1, ["Attention"]),
        case("the root's class", 1, ["Decoder"]),
        Case("a large first block", {"modules": big[0], "sizes": big[1], "classes": ["Block"]}),
        Case(
            "nothing left for the root",
            {"modules": bare[0], "sizes": bare[1], "classes": ["Block"]},
        ),
        Case(
            "a unit without parameters of its own",
            {"modules": bare[0], "sizes": bare[1], "classes": ["Block", "Stack"]},
        ),
    )


def _prefix(modules: Modules, sizes: Sizes, classes: list[str]) -> Answer:
    return _wrap(modules, sizes, classes, dot="")


def _outermost(modules: Modules, sizes: Sizes, classes: list[str]) -> Answer:
    return _wrap(modules, sizes, classes, outermost=True)


def _whole_model(modules: Modules, sizes: Sizes, classes: list[str]) -> Answer:
    return _wrap(modules, sizes, classes, peak="all")


def _largest_unit(modules: Modules, sizes: Sizes, classes: list[str]) -> Answer:
    return _wrap(modules, sizes, classes, peak="one")


def _last_unit(modules: Modules, sizes: Sizes, classes: list[str]) -> Answer:
    return _wrap(modules, sizes, classes, peak="root and last")


def _no_root(modules: Modules, sizes: Sizes, classes: list[str]) -> Answer:
    return _wrap(modules, sizes, classes, root=False)


def _parents_first(modules: Modules, sizes: Sizes, classes: list[str]) -> Answer:
    return _wrap(modules, sizes, classes, parents_first=True)


def _empty_units(modules: Modules, sizes: Sizes, classes: list[str]) -> Answer:
    return _wrap(modules, sizes, classes, empty=True)


def _in_all(modules: Modules, sizes: Sizes, classes: list[str]) -> Answer:
    return _wrap(modules, sizes, classes, twice=True)


def _backwards(modules: Modules, sizes: Sizes, classes: list[str]) -> Answer:
    order, units, peak = wrap(modules, sizes, classes)
    return [*sorted(order[-2::-1], key=lambda name: -name.count(".")), ""], units, peak


def _everything(modules: Modules, sizes: Sizes, classes: list[str]) -> Answer:
    return _wrap(modules, sizes, [kind for name, kind in modules.items() if name])


WRAP = Exercise(
    id="shard.wrap.1",
    title="A wrap policy",
    chapter=33,
    difficulty=3,
    minutes=25,
    goal=(
        "Which modules fully_shard is called on, deepest first and the root last; which parameters "
        "each of these units gathers; and the most numbers that are gathered at one time, the "
        "root's unit with the largest other one."
    ),
    outputs=(
        Output("order", "list of names", "python"),
        Output("units", "name to parameters", "python"),
        Output("peak", "a number of parameters", "python"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=wrap,
    mutants=(
        Mutant(
            "prefix without a dot",
            _prefix,
            "`layers.1` also takes the parameters of `layers.10`: compare with the dot behind the "
            "name",
        ),
        Mutant(
            "outermost",
            _outermost,
            "a parameter goes to the outermost unit around it: the inner one was wrapped first and "
            "took it",
        ),
        Mutant(
            "in all of them",
            _in_all,
            "a parameter is in every unit around it and would be gathered several times: it "
            "belongs to the innermost",
        ),
        Mutant(
            "peak of the whole model",
            _whole_model,
            "the peak counts all units at once: a block is let go of before the next but one is "
            "needed. Only the root's unit stays",
        ),
        Mutant(
            "peak without the root",
            _largest_unit,
            "the peak is the largest unit alone: the root's unit stays gathered while the blocks "
            "come and go",
        ),
        Mutant(
            "peak of the last unit",
            _last_unit,
            "the peak takes the last unit instead of the largest one",
        ),
        Mutant(
            "no root",
            _no_root,
            "the root is not wrapped: embedding, last norm and head would stay whole on every rank",
        ),
        Mutant(
            "parents first",
            _parents_first,
            "parents come before their children: whoever is wrapped first takes all parameters "
            "below it, so begin with the deepest",
        ),
        Mutant(
            "backwards",
            _backwards,
            "names of one depth stand from last to first: deepest first, and then in the order of "
            "the model, which is the order in which they are gathered",
        ),
        Mutant(
            "empty units",
            _empty_units,
            "units without a parameter of their own are listed: there is nothing to gather",
        ),
        Mutant(
            "every module",
            _everything,
            "every module is wrapped, whatever the policy says: many short messages instead of one "
            "a block",
        ),
    ),
    not_tested="tied parameters, which must lie in one unit, and blocks fetched ahead of time.",
)
