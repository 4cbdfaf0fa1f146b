"""Which libraries have an adapter here, and how to name one of your own."""

import importlib

from bookkit.conformance.adapter import Adapter

LIBRARIES = {
    "ours": "bookkit.conformance.adapters.ours:OursAdapter",
    "trl": "bookkit.conformance.adapters.trl:TrlAdapter",
    "sb3": "bookkit.conformance.adapters.sb3:Sb3Adapter",
    "torchrl": "bookkit.conformance.adapters.torchrl:TorchrlAdapter",
    "verl": "bookkit.conformance.adapters.verl:VerlAdapter",
    "openrlhf": "bookkit.conformance.adapters.openrlhf:OpenRlhfAdapter",
    "skyrl": "bookkit.conformance.adapters.skyrl:SkyRlAdapter",
}


def load_adapter(name: str) -> Adapter:
    """The adapter of a library.

    Args:
        name: a key of `LIBRARIES`, or "package.module:ClassName" for one of your own.

    Raises:
        ValueError: neither of both.
        ImportError: the library behind the adapter is not installed.
    """
    path = LIBRARIES.get(name, name)
    module_name, _, class_name = path.partition(":")
    if not class_name:
        known = ", ".join(LIBRARIES)
        raise ValueError(
            f"unknown library {name!r}: name one of {known}, or your adapter as module:Class"
        )
    module = importlib.import_module(module_name)
    adapter_class = getattr(module, class_name, None)
    if not (isinstance(adapter_class, type) and issubclass(adapter_class, Adapter)):
        raise ValueError(f"{path} is not a subclass of bookkit.conformance.Adapter")
    return adapter_class()
