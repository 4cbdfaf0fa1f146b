"""shard.wrap.1: what is gathered together, and how much lies there at the worst moment."""

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits

Modules = dict[str, str]


Sizes = dict[str, int]


Units = dict[str, list[str]]


Answer = tuple[list[str], Units, int]


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


CHECK = Check(
    id="shard.wrap.1",
    outputs=(
        Output("order", "list of names", "python"),
        Output("units", "name to parameters", "python"),
        Output("peak", "a number of parameters", "python"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "prefix without a dot",
            'n + "."',
            "n",
            "`layers.1` also takes the parameters of `layers.10`: compare with the dot "
            "behind the name",
        ),
        edit(
            "outermost",
            "for n in order if",
            'for n in [*order[-2::-1], ""] if',
            "a parameter goes to the outermost unit around it: the inner one was wrapped "
            "first and took it",
        ),
        edit(
            "in all of them",
            'home = next(n for n in order if n == "" or parameter.startswith(n + "."))\n'
            "        units.setdefault(home, []).append(parameter)",
            "for name in order:\n"
            '            if name == "" or parameter.startswith(name + "."):\n'
            "                units.setdefault(name, []).append(parameter)",
            "a parameter is in every unit around it and would be gathered several times: "
            "it belongs to the innermost",
        ),
        edit(
            "peak of the whole model",
            'totals.get("", 0) + largest',
            "sum(totals.values())",
            "the peak counts all units at once: a block is let go of before the next but "
            "one is needed. Only the root's unit stays",
        ),
        edit(
            "peak without the root",
            'totals.get("", 0) + largest',
            "max(totals.values(), default=0)",
            "the peak is the largest unit alone: the root's unit stays gathered while the "
            "blocks come and go",
        ),
        edit(
            "peak of the last unit",
            "max((total for name, total in totals.items() if name), default=0)",
            "next((totals[n] for n in order[::-1] if n and n in totals), 0)",
            "the peak takes the last unit instead of the largest one",
        ),
        edits(
            "no root",
            (' + [""]', ""),
            (
                'home = next(n for n in order if n == "" or parameter.startswith(n + "."))',
                'home = next((n for n in order if parameter.startswith(n + ".")), None)\n'
                "        if home is None:\n"
                "            continue",
            ),
            message="the root is not wrapped: embedding, last norm and head would stay whole on "
            "every rank",
        ),
        edit(
            "parents first",
            '+ [""]',
            '+ [""]\n    order = order[::-1]',
            "parents come before their children: whoever is wrapped first takes all "
            "parameters below it, so begin with the deepest",
        ),
        edit(
            "backwards",
            "return order,",
            'return [*sorted(order[-2::-1], key=lambda name: -name.count(".")), ""],',
            "names of one depth stand from last to first: deepest first, and then in the "
            "order of the model, which is the order in which they are gathered",
        ),
        edit(
            "empty units",
            "= {}\n",
            "= {name: [] for name in order}\n",
            "units without a parameter of their own are listed: there is nothing to gather",
        ),
        edit(
            "every module",
            "if name and kind in classes",
            "if name",
            "every module is wrapped, whatever the policy says: many short messages "
            "instead of one a block",
        ),
    ),
    not_tested="tied parameters, which must lie in one unit, and blocks fetched ahead of time.",
)
